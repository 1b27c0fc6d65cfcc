"""scanline train: from published files to a model directory, and
what it prints without a terminal.
"""

import itertools
import json
import logging
import re
from dataclasses import replace
from math import prod
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scanline.model.datasets import DIGESTS
from scanline.model.datasets.source import ImageSet, open_data
from scanline.model.datasets.sources import NAMED, Refused
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.tasks.offline import paint
from scanline.model.training import TrainingConfig
from scanline.model.training.optimise import precision
from scanline.model.training.presets import PRESETS, Preset
from scanline.model.training.run import sizing
from scanline.model.training.run.curve import Row
from scanline.model.training.run.state import saved_configs
from scanline.server.cli.base.training_options import TrainingOptions
from scanline.server.cli.base.training_report import LINE_SECONDS, print_images, training_progress
from tests.support import blobs, small_models
from tests.support.commands import done, refused, scanline
from tests.support.full_disk import full_disk

RECIPE = TrainingConfig(updates=3, batch=2, evaluate_images=2, sample_images=1)
TRAIN = ("train", "--no-compile", "--preset", "tiny", "--data")


@pytest.fixture(autouse=True, scope="module")
def preset():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            PRESETS,
            "tiny",
            Preset("mnist", small_models.config(height=28, width=28, layers=1), RECIPE),
        )
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    blobs.write(directory)
    return directory


def test_a_run_is_neither_overwritten_nor_resumed_with_another_recipe(data, tmp_path):
    train = (*TRAIN, data, "--out", tmp_path)
    state = tmp_path / "training.pt"
    done(*train)
    before = state.read_bytes()
    said = refused(*train)
    assert (
        "already holds a training run; continue it with --resume, or name another directory" in said
    )
    assert state.read_bytes() == before
    said = refused(*train, "--resume", "--batch", 3)
    assert said == f"{state} is of another recipe: batch is 2 there, 3 here"


def test_where_rounding_hides_gradients_products_are_float32(tmp_path, monkeypatch):
    """Of a model whose logistics are narrow, and pictures that it has painted itself."""
    model = small_models.model_of("pixels")
    with torch.no_grad():
        model.head.bias[12:21] = -7  # the scales
    save_model(model, tmp_path / "narrow")
    np.save(tmp_path / "own.npy", paint(model, 60, seed=1).images.reshape(60, 4, 5, 3))
    train = ("train", "--no-compile", "--updates", 1, "--from", tmp_path / "narrow")
    train += ("--data", tmp_path / "own.npy", "--out")
    asked = scanline(*train, tmp_path / "asked", "--precision", "bfloat16").err
    assert asked.endswith("give --precision float32\n")
    monkeypatch.setattr(precision, "product_dtype", lambda *of: torch.bfloat16)
    said = scanline(*train, tmp_path / "out").err.removeprefix("training with ")
    assert f"| products | {said.strip()} |" in (tmp_path / "out/README.md").read_text()
    done("train", "--resume", "--no-compile", "--updates", 2, "--out", tmp_path / "out")


def test_options_override_the_preset(tmp_path, data, monkeypatch):
    monkeypatch.setitem(DIGESTS, "mnist", open_data(data).digest)
    options = ("--updates", 2, "--batch", 1, "--mirror", "--json")
    result = done(*TRAIN, data, "--out", tmp_path, *options)
    assert json.loads(result)["update"] == 2
    assert " passes, mirrored)" in (tmp_path / "README.md").read_text()
    done("train", "--no-compile", "--resume", "--out", tmp_path, "--updates", 3)
    resumed = saved_configs(tmp_path)[1]
    assert (resumed.flip, resumed.batch) == (True, 1)


@pytest.mark.parametrize(
    ("shape", "given", "start"),
    [
        ((28, 28, 1), {}, "mnist-small"),
        ((32, 32, 3), {}, "cifar10-small"),
        ((16, 16, 3), {}, "avatars-small"),
        ((28, 28, 3), {}, None),
        ((28, 28, 1), {"start": "none"}, None),
        ((28, 28, 1), {"preset": "mnist"}, None),
        ((28, 28, 1), {"neighbours": True}, None),
        ((28, 28, 1), {"start": "elsewhere"}, "elsewhere"),
    ],
)
def test_the_model_a_run_begins_from(shape, given, start):
    images = ImageSet(
        np.zeros((2, prod(shape)), np.uint8), np.zeros((2, prod(shape)), np.uint8), *shape, None, ""
    )
    assert TrainingOptions(Path("out"), **given).start_for(images) == start


def test_short_runs_are_not_compiled():
    recipes = [TrainingConfig(updates=9, minutes=minutes) for minutes in (2.0, 9.0, 20.0, None)]
    options = TrainingOptions(Path("out"))
    assert [options.compiles(recipe, "cpu") for recipe in recipes] == [False, False, True, True]
    assert [options.compiles(recipe, "cuda") for recipe in recipes] == [False, True, True, True]
    assert TrainingOptions(Path("out"), compiled=True).compiles(recipes[0], "cpu")


def test_minutes_of_a_gpu_and_the_minutes_after_them(tmp_path, data, monkeypatch, caplog):
    """On a CPU that is measured as a GPU is, by a clock that goes
    on by 0.3 s whenever it is read.
    """
    ticks = itertools.count()
    monkeypatch.setattr(
        "scanline.model.training.run.clock.time",
        SimpleNamespace(monotonic=lambda: 0.3 * next(ticks)),
    )
    changed = {"MEASURED_ON": "cpu", "BATCHES": (2, 4), "BATCH_SECONDS": 1e-9, "PLATEAU_UPDATES": 1}
    for name, value in changed.items():
        monkeypatch.setattr(sizing, name, value)
    first = tmp_path / "first"
    second = tmp_path / "second"
    cache = tmp_path / "cache"
    minutes = (
        "train",
        "--data",
        data,
        "--classes",
        "--minutes",
        0.1,
        "--compile-cache",
        cache,
        "--no-compile",
    )
    said = done(*minutes, "--layers", 1, "--width", 32, "--checkpoint-mb", 2.3, "--out", first)
    assert re.search(
        r"1 layers of width 32, .+; 0.1 minutes, [24] pictures .+, the rate falls in the last 40%\n",
        said,
    )
    assert f"train it further: scanline train --from {first / 'plateau'} --data" in said
    assert sum(path.stat().st_size for path in first.rglob("*") if path.is_file()) < 2.3e6
    assert not torch.load(first / "training.pt", weights_only=True)["optimiser"]
    assert (
        ", rate 0.005 falling to zero in the last 40% of it; seed 0 |"
        in (first / "README.md").read_text()
    )
    said = done("train", "--resume", "--out", first, "--minutes", 0.12, "--no-compile")
    assert "the checkpoint had no room for the optimiser's state, which starts anew\n" in said
    assert not torch.load(first / "training.pt", weights_only=True)["optimiser"]

    # of an earlier version, which had more options
    recipe = first / "plateau" / "recipe.json"
    recipe.write_text(json.dumps(json.loads(recipe.read_text()) | {"contrast": 6.0, "redrawn": 0}))
    said = done(*minutes, "--from", first / "plateau", "--out", second)
    former = f"{recipe} has contrast 6.0, which this version lacks: training goes on without"
    assert former in caplog.messages
    assert re.search(r"plateau reads \d+ of 20 training pictures as their class", said)
    recipes = [saved_configs(path)[1] for path in (first, second)]
    assert recipes[1] == replace(recipes[0], seed=1)
    assert load_model(second / "plateau").config == load_model(first).config

    shifted = tmp_path / "shifted"
    shifted.mkdir()
    blobs.write(shifted, shift=1)
    said = refused(
        "train", "--data", shifted, "--classes", "--from", first, "--out", tmp_path / "third"
    )
    assert said.startswith("the labels of the training pictures are shifted: first reads ")


@pytest.mark.slow  # starts a process; tests of training do so too
def test_branches_are_remembered_and_on_the_card(tmp_path, data):
    train = (*TRAIN, data, "--out", tmp_path)
    options = ("--updates", 1, "--branches", 2, "--branch-updates", 1)
    assert "1 updates, 2 pictures an update in each of 2 branches" in done(*train, *options)
    assert (
        " passes) by each of 2 branches, averaged every 1 updates; "
        in (tmp_path / "README.md").read_text()
    )
    ran = scanline(
        "train", "--no-compile", "--resume", "--out", tmp_path, "--updates", 4, "--processes", 2
    )
    sentence = "scanline: a run has several branches, or several processes that share every batch, but not both\n"
    assert (ran.status, ran.err) == (2, sentence)


def limited(most, *arguments):
    """Return the error of a command that may write files of so many bytes."""
    with full_disk(most):
        ran = scanline(*arguments)
    assert ran.status == 2
    return ran.err


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, data):
    train = (*TRAIN, data, "--out", tmp_path)
    model = tmp_path / "model.safetensors"
    curve = tmp_path / "loss.png"
    assert (
        limited(1000, *train) == f"scanline: {model}: File too large; there is no checkpoint yet\n"
    )
    done(*train, "--updates", 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = f"scanline train --resume --out {tmp_path}"
    kept = (
        f"File too large; the last checkpoint is intact, so make room and continue with: {again}\n"
    )
    assert limited(1000, *train, "--resume") == f"scanline: {model}: {kept}"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    most = model.stat().st_size + 1000  # the model fits, the plot of the loss does not
    assert limited(most, *train, "--resume") == f"scanline: {curve}: {kept}"
    assert (tmp_path / "training.pt").read_bytes() == before["training.pt"]
    done(*train, "--resume")
    load_model(tmp_path)


def row(update, seconds, bits, test=None):
    return Row(update, bits, 0.001, 1.0, seconds, test)


def test_refused_files_are_named_up_to_a_limit(capsys):
    left_out = tuple(Refused(f"{i}.png", "it is empty") for i in range(NAMED + 1_234))
    images = ImageSet(
        np.zeros((2, 6), np.uint8), np.zeros((1, 6), np.uint8), 2, 3, 1, None, "", left_out
    )
    print_images(Path("folder"), images, to_stderr=True)
    out, err = capsys.readouterr()
    lines = ["folder: 2 pictures of 3x2 grey to train on, 1 to test on"]
    files = ", ".join(f"{i}.png" for i in range(NAMED))
    lines.append(f"{NAMED + 1_234:,} left out: {files} and 1,234 more: it is empty")
    assert (out, err.splitlines()) == ("", lines)


def test_a_line_every_half_minute_and_at_each_test(capsys):
    config = TrainingConfig(updates=1000, batch=4)
    with training_progress(config, "name", as_json=False) as report:
        report(row(10, LINE_SECONDS - 1, 5.0))
        report(row(20, LINE_SECONDS, 4.0))
        report(row(30, LINE_SECONDS + 1, 3.0))
        report(row(40, LINE_SECONDS + 11, 2.0, test=2.5))
    first, second = capsys.readouterr().out.splitlines()
    # 10 updates of 4 images a second
    assert first == "update 20: 4.500 bits/dim, 40 images/s, 98 s left"
    assert second == "update 40: 3.500 bits/dim, test 2.500, 10 images/s, 6 min left"


def test_the_rate_is_also_a_share_of_a_gpu_s_peak(capsys):
    with training_progress(
        TrainingConfig(updates=1000, batch=4), "name", as_json=False, peak=160.0
    ) as report:
        report(row(10, 1.0, 5.0))
        report(row(20, 2.0, 5.0, test=5.0))
        logging.getLogger("scanline.training").info("an update is one CUDA graph")
    said = capsys.readouterr().out
    assert ", 40 images/s (25.0% of the peak), 98 s left" in said
    assert said.endswith("\nan update is one CUDA graph\n")


def test_a_run_of_minutes_has_the_time_that_the_clock_leaves(capsys):
    with training_progress(
        TrainingConfig(updates=10**9, minutes=300), "name", as_json=False
    ) as report:
        report(row(10, 60, 5.0, test=5.0))
        report(row(20, 18_000 - 90, 5.0, test=5.0))
    assert [line.rpartition(", ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "5.0 h left",
        "90 s left",
    ]


def test_as_json_each_row_is_an_object(capsys):
    with training_progress(TrainingConfig(updates=5), "name", as_json=True) as report:
        report(row(1, 2.0, 5.0))
        report(row(2, 3.0, 4.0, test=4.5))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        (each["update"], each["bits_per_dim"], each["test_bits_per_dim"]) for each in found
    ] == [
        (1, 5.0, None),
        (2, 4.0, 4.5),
    ]
