"""The record of a run, and its clock."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets.source import ImageSet
from scanline.model.training import TrainingConfig
from scanline.model.training.optimise.optimiser import learning_rate
from scanline.model.training.run.clock import LONGEST_WARM_UP, ROW_SECONDS, ROW_UPDATES, RunClock
from scanline.model.training.run.record import FILE, Run, check_out, check_same_images, describe, load_run
from scanline.model.training.run.state import ResumeError

IMAGES = ImageSet(np.zeros((5, 6), np.uint8), np.ones((2, 6), np.uint8), 2, 3, 1, None, "abc", duplicates=4)


def run(size: tuple[int, int] | None = (3, 2)) -> Run:
    return describe(IMAGES, Path("pictures"), size, True, None, "mnist-small", 5)


def with_size(size: object) -> str:
    return json.dumps(asdict(run()) | {"size": size})


@pytest.mark.parametrize("size", [(3, 2), None])
def test_it_is_read_back_as_it_was_written(tmp_path: Path, size: tuple[int, int] | None) -> None:
    saved = run(size)
    assert load_run(tmp_path) is None
    saved.save(tmp_path)
    assert load_run(tmp_path) == saved
    assert (saved.data, saved.train, saved.test, saved.duplicates) == (str(Path("pictures").absolute()), 5, 2, 4)


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        '{"data": "pictures"}',
        '{"size": [1, 2], "more": 3}',
        "[" * 10**5,
        *map(with_size, ([3], ["a", "b"], 5)),
    ],
)
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, damage: str) -> None:
    (tmp_path / FILE).write_text(damage)
    with pytest.raises(ResumeError) as error:
        load_run(tmp_path)
    assert str(error.value) == f"{tmp_path / FILE} is not the record of a run"


def test_other_images_are_refused_with_their_numbers() -> None:
    check_same_images(run(), IMAGES)
    with pytest.raises(ResumeError, match="have changed since the run began: 7 then, 6 now;"):
        check_same_images(run(), replace(IMAGES, digest="other", train=IMAGES.train[1:]))


def test_files_of_somebody_else_are_not_replaced(tmp_path: Path) -> None:
    check_out(tmp_path / "new")
    (tmp_path / "README.md").write_text("# My thesis\n")
    with pytest.raises(ValueError, match=r"has a README\.md and is no model's directory"):
        check_out(tmp_path)
    run().save(tmp_path)
    check_out(tmp_path)


TIMED = TrainingConfig(updates=10**9, minutes=10, learning_rate=1.0, warm_up=100)


@pytest.mark.parametrize("seconds", [60, 300, 599])
def test_the_rate_falls_linearly_with_the_seconds_of_all_parts(seconds: float) -> None:
    assert RunClock(TIMED, seconds).rate(update=5000) == pytest.approx(1 - seconds / 600, abs=1e-3)


def test_warm_up_ends_with_its_updates_or_with_its_share_of_the_time() -> None:
    assert RunClock(TIMED, 0).rate(update=49) == pytest.approx(0.5, abs=1e-3)
    assert RunClock(TIMED, 600 * LONGEST_WARM_UP / 2).rate(update=0) == pytest.approx(0.5 * 0.975, abs=1e-3)


def test_it_ends_with_the_minutes_or_the_updates() -> None:
    assert not RunClock(TIMED, 599).ended(1)
    assert RunClock(TIMED, 600).ended(1)
    assert RunClock(TIMED, 600.5).rate(1) == 0
    assert RunClock(TIMED, 5).ended(10**9)
    by_updates = RunClock(TrainingConfig(updates=7, checkpoint_every=3), 10**6)
    assert [done for done in range(1, 7) if by_updates.checkpoint_due(done)] == [3, 6]
    assert (by_updates.ended(6), by_updates.ended(7)) == (False, True)
    assert by_updates.rate(3) == learning_rate(TrainingConfig(updates=7), 3)


def test_checkpoints_of_a_run_of_minutes_are_a_tenth_of_it_apart_or_five_times_what_one_takes() -> None:
    clock = RunClock(TIMED, 100)
    assert not clock.checkpoint_due(1)
    clock.started -= 61
    assert clock.checkpoint_due(2)
    clock.started -= 30  # the checkpoint takes so long
    clock.checkpoint_written(began=clock.seconds - 30)
    clock.started -= 140
    assert not clock.checkpoint_due(3)
    clock.started -= 11
    assert clock.checkpoint_due(4)


def test_rows_of_a_run_of_minutes_are_at_most_ten_seconds_apart() -> None:
    clock = RunClock(TIMED, 100)
    assert not clock.row_due(1)
    assert clock.row_due(ROW_UPDATES)
    clock.started -= ROW_SECONDS + 1
    assert clock.row_due(ROW_UPDATES + 1)
    assert not clock.row_due(ROW_UPDATES + 2)  # the next interval has begun
