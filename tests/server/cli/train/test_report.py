"""The output of `scanline train` without a terminal: refused files up to a limit, and a line from time to time."""

import json
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets.folder import Refused
from scanline.model.datasets.source import ImageSet
from scanline.model.training import TrainingConfig
from scanline.model.training.run.curve import Row
from scanline.server.cli.training_report import LINE_SECONDS, NAMED, print_images, training_progress


def row(update: int, seconds: float, bits: float, test: float | None = None) -> Row:
    return Row(update, bits, 0.001, 1.0, seconds, test)


@pytest.mark.parametrize(("count", "more"), [(1, []), (NAMED + 1_234, ["  and 1,234 more"])])
def test_refused_files_are_named_up_to_a_limit(count: int, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refused = tuple(Refused(f"{i}.png", "it is empty") for i in range(count))
    images = ImageSet(np.zeros((2, 6), np.uint8), np.zeros((1, 6), np.uint8), 2, 3, 1, None, "", refused)
    print_images(Path("folder"), images, to_stderr=True)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0] == "folder: 2 pictures of 3x2 grey to train on, 1 to test on"
    assert lines[1] == f"{count:,} {'file was' if count == 1 else 'files were'} refused:"
    named = min(count, NAMED)
    assert lines[2 : 2 + named] == [f"  {i}.png: it is empty" for i in range(named)]
    assert lines[2 + named :] == more


def test_a_line_every_half_minute_and_at_each_test_of_the_mean_loss_the_rate_and_the_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = TrainingConfig(updates=1000, batch=4)
    with training_progress(config, "name", as_json=False) as report:
        report(row(10, LINE_SECONDS - 1, 5.0))
        report(row(20, LINE_SECONDS, 4.0))
        report(row(30, LINE_SECONDS + 1, 3.0))
        report(row(40, LINE_SECONDS + 11, 2.0, test=2.5))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "update 20: 4.500 bits/dim, 40 images/s, 98 s left"  # 10 updates of 4 images a second
    assert second == "update 40: 3.500 bits/dim, test 2.500, 10 images/s, 6 min left"


def test_a_run_of_minutes_has_the_time_that_the_clock_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    with training_progress(TrainingConfig(updates=10**9, minutes=300), "name", as_json=False) as report:
        report(row(10, 60, 5.0, test=5.0))
        report(row(20, 18_000 - 90, 5.0, test=5.0))
    assert [line.rpartition(", ")[2] for line in capsys.readouterr().out.splitlines()] == ["5.0 h left", "90 s left"]


def test_as_json_each_row_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    with training_progress(TrainingConfig(updates=5), "name", as_json=True) as report:
        report(row(1, 2.0, 5.0))
        report(row(2, 3.0, 4.0, test=4.5))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["update"], each["bits_per_dim"], each["test_bits_per_dim"]) for each in found] == [
        (1, 5.0, None),
        (2, 4.0, 4.5),
    ]
