"""scanline train: from published files to a model directory."""

import json
import resource
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scanline.model.datasets import DIGESTS
from scanline.model.datasets.source import ImageSet, open_data
from scanline.model.formats.checkpoint import load_model
from scanline.model.training import TrainingConfig
from scanline.model.training.presets import PRESETS, Preset
from scanline.model.training.run.state import saved_configs
from scanline.server.cli.training_options import TrainingOptions
from tests.support import blobs, small_models
from tests.support.commands import done, refused, scanline

TINY = Preset(
    "mnist",
    small_models.config(height=28, width=28, layers=1),
    TrainingConfig(updates=3, batch=2, evaluate_images=2, sample_images=1),
)


@pytest.fixture(autouse=True, scope="module")
def preset() -> Iterator[None]:
    """A preset of three updates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "tiny", TINY)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    blobs.write(directory)
    return directory


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    done("train", "--no-compile", "--preset", "tiny", "--data", data, "--out", directory)
    return directory


def test_a_resumed_run_ends_where_a_whole_one_does(tmp_path: Path, data: Path, trained: Path) -> None:
    train = ("train", "--no-compile", "--preset", "tiny", "--data", data, "--out", tmp_path)
    done(*train, "--updates", 2)
    done(*train, "--resume")
    assert (tmp_path / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_a_run_is_neither_overwritten_without_resume_nor_resumed_with_another_recipe(data: Path, trained: Path) -> None:
    before = (trained / "training.pt").read_bytes()
    said = refused("train", "--no-compile", "--preset", "tiny", "--data", data, "--out", trained)
    assert "already holds a training run; continue it with --resume, or name another directory" in said
    assert (trained / "training.pt").read_bytes() == before
    said = refused(
        "train", "--no-compile", "--preset", "tiny", "--data", data, "--out", trained, "--resume", "--batch", 3
    )
    assert said == f"{trained / 'training.pt'} is of another recipe: batch is 2 there, 3 here"


def test_options_override_the_preset_and_are_remembered(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DIGESTS, "mnist", open_data(data).digest)
    options = ("--updates", 2, "--batch", 1, "--redrawn", 0.75, "--json")
    result = done("train", "--no-compile", "--preset", "tiny", "--data", data, "--out", tmp_path, *options)
    assert json.loads(result)["update"] == 2
    assert (
        " passes, 75% of the images re-rendered until the rate is 0.2 of its peak)"
        in (tmp_path / "README.md").read_text()
    )
    done("train", "--no-compile", "--resume", "--out", tmp_path, "--updates", 3)
    assert (saved_configs(tmp_path)[1].redrawn, saved_configs(tmp_path)[1].batch) == (0.75, 1)


@pytest.mark.parametrize(
    ("shape", "given", "start"),
    [
        ((28, 28, 1), {}, "mnist-small"),
        ((32, 32, 3), {}, "cifar10-small"),
        ((28, 28, 3), {}, None),
        ((28, 28, 1), {"start": "none"}, None),
        ((28, 28, 1), {"preset": "mnist"}, None),
        ((28, 28, 1), {"neighbours": True}, None),
        ((28, 28, 1), {"start": "elsewhere"}, "elsewhere"),
    ],
)
def test_a_run_begins_from_the_shipped_model_of_the_pictures_size(
    shape: tuple[int, int, int], given: dict[str, Any], start: str | None
) -> None:
    images = ImageSet(np.zeros((2, prod(shape)), np.uint8), np.zeros((2, prod(shape)), np.uint8), *shape, None, "")
    assert TrainingOptions(Path("out"), **given).start_for(images) == start


def test_short_runs_are_not_compiled() -> None:
    short, long, counted = (TrainingConfig(updates=9, minutes=minutes) for minutes in (2.0, 20.0, None))
    options = TrainingOptions(Path("out"))
    assert [options.compiles(recipe) for recipe in (short, long, counted)] == [False, True, True]
    assert TrainingOptions(Path("out"), compiled=True).compiles(short)


@pytest.mark.slow  # starts a process; tests of training do so too
def test_branches_are_remembered_and_on_the_card(tmp_path: Path, data: Path) -> None:
    train = ("train", "--no-compile", "--preset", "tiny", "--data", data, "--out", tmp_path)
    options = ("--updates", 1, "--branches", 2, "--branch-updates", 1)
    assert "1 updates, 2 pictures an update in each of 2 branches" in done(*train, *options)
    assert " passes) by each of 2 branches, averaged every 1 updates; " in (tmp_path / "README.md").read_text()
    ran = scanline("train", "--no-compile", "--resume", "--out", tmp_path, "--updates", 4, "--processes", 2)
    sentence = "scanline: a run has several branches, or several processes that share every batch, but not both\n"
    assert (ran.status, ran.err) == (2, sentence)


def limited(most: int, *arguments: object) -> str:
    """Return the error of a command that may write files of so many bytes, which stands for a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        ran = scanline(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ran.status == 2
    return ran.err


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, data: Path) -> None:
    train = ("train", "--no-compile", "--preset", "tiny", "--data", data, "--out", tmp_path)
    model, curve = tmp_path / "model.safetensors", tmp_path / "loss.png"
    assert limited(1000, *train) == f"scanline: {model}: File too large; there is no checkpoint yet\n"
    done(*train, "--updates", 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = (
        "File too large; the last checkpoint is intact, so make room and continue with: scanline train --resume --out"
        f" {tmp_path}\n"
    )
    assert limited(1000, *train, "--resume") == f"scanline: {model}: {kept}"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    most = model.stat().st_size + 1000  # the model fits, the plot of the loss does not
    assert limited(most, *train, "--resume") == f"scanline: {curve}: {kept}"
    assert (tmp_path / "training.pt").read_bytes() == before["training.pt"]
    done(*train, "--resume")
    load_model(tmp_path)
