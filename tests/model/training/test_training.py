"""A training run: the loss falls, and every checkpoint leaves all that a person or a later run needs."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scanline.model.evaluation.evaluate import bits_per_dim
from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.training import TrainingConfig
from scanline.model.training.loop import ROW_EVERY, train
from tests.support.training_runs import HAS_MUON, IMAGES, MODEL, RECIPE, StoppedError, curve, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Transformer]:
    directory = tmp_path_factory.mktemp("run")
    return directory, run(directory)


def rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "loss.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_loss_falls(finished: tuple[Path, Transformer]) -> None:
    losses = [float(row["bits_per_dim"]) for row in rows(finished[0])]
    assert losses[-1] < 0.8 * losses[0]


def test_the_test_loss_is_that_of_the_averaged_model(finished: tuple[Path, Transformer]) -> None:
    directory, model = finished
    tested = bits_per_dim(model, IMAGES[32:38]).mean()
    assert float(rows(directory)[-1]["test_bits_per_dim"]) == pytest.approx(tested, rel=1e-6)


def test_rows_come_every_few_updates_and_tests_at_checkpoints(finished: tuple[Path, Transformer]) -> None:
    found = [(int(row["update"]), row["test_bits_per_dim"] != "") for row in rows(finished[0])]
    assert ROW_EVERY == 20
    assert found == [(20, False), (30, True), (40, False), (60, True), (80, False), (90, True)]


def test_what_a_checkpoint_leaves(finished: tuple[Path, Transformer]) -> None:
    files = sorted(path.name for path in finished[0].iterdir())
    assert files == ["config.json", "loss.csv", "loss.png", "model.safetensors", "samples.png", "training.pt"]


def test_the_directory_serves_the_averaged_model(finished: tuple[Path, Transformer]) -> None:
    directory, model = finished
    loaded = load_model(directory)
    assert loaded.config == MODEL
    assert all(
        torch.equal(tensor.half().float(), loaded.state_dict()[name]) for name, tensor in model.state_dict().items()
    )


def test_pictures_are_pictures(finished: tuple[Path, Transformer]) -> None:
    with Image.open(finished[0] / "samples.png") as samples, Image.open(finished[0] / "loss.png") as loss:
        assert (samples.mode, samples.size) == ("L", (2 * MODEL.width, 2 * MODEL.height))
        assert loss.width > 300
        assert len(np.unique(np.asarray(loss.convert("L")))) > 2


@pytest.mark.parametrize("optimiser", ["adamw", "radam", pytest.param("muon", marks=HAS_MUON)])
def test_same_recipe_same_weights(tmp_path: Path, optimiser: str) -> None:
    first, again = (run(tmp_path / name, optimiser=optimiser, updates=30) for name in ("first", "again"))
    assert all(map(torch.equal, first.state_dict().values(), again.state_dict().values()))
    assert curve(tmp_path / "first") == curve(tmp_path / "again")


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    first, other = (run(tmp_path / str(seed), seed=seed, updates=20) for seed in (0, 1))
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_loss_that_is_no_number_ends_the_run_and_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        run(tmp_path, stop_at=40)
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(
        FloatingPointError, match=r"the loss is (nan|inf) after \d+ updates; the last checkpoint in .+ is unharmed"
    ):
        run(tmp_path, learning_rate=1e30, clip=1e30)
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_bfloat16_learns_too(tmp_path: Path) -> None:
    run(tmp_path, precision="bfloat16")
    losses = [float(row["bits_per_dim"]) for row in rows(tmp_path)]
    assert losses[-1] < 0.8 * losses[0]


def test_images_of_another_size_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the images have 10 bytes, the model's 20"):
        train(MODEL, TrainingConfig(**RECIPE), IMAGES[:, :10], IMAGES, tmp_path / "new")
    assert not (tmp_path / "new").exists()
