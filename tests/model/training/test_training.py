"""A training run: the loss falls, and every checkpoint leaves all that a person or a later run needs."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.training import TrainingConfig
from scanline.model.training.loop import train
from scanline.model.training.run.clock import ROW_UPDATES
from tests.support.saved_models import assert_same_weights
from tests.support.sweeps import and_slow
from tests.support.training.training_runs import IMAGES, MODEL, RECIPE, StoppedError, curve, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Transformer]:
    directory = tmp_path_factory.mktemp("run")
    return directory, run(directory, picture=True, checkpoint_every=30, updates=50)


def rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "loss.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_curve_shows_a_falling_loss_and_at_checkpoints_that_of_the_averaged_model(
    finished: tuple[Path, Transformer],
) -> None:
    directory, model = finished
    found = rows(directory)
    assert ROW_UPDATES == 20
    tests = [(20, False), (30, True), (40, False), (50, True)]
    assert [(int(row["update"]), row["test_bits_per_dim"] != "") for row in found] == tests
    assert float(found[-1]["bits_per_dim"]) < 0.9 * float(found[0]["bits_per_dim"])
    tested = bits_per_dim(model, IMAGES[32:38]).mean()
    assert float(found[-1]["test_bits_per_dim"]) == pytest.approx(tested, rel=1e-6)


def test_a_checkpoint_leaves_the_averaged_model_and_two_pictures(finished: tuple[Path, Transformer]) -> None:
    directory, model = finished
    files = sorted(path.name for path in directory.iterdir())
    assert files == ["config.json", "loss.csv", "loss.png", "model.safetensors", "samples.png", "training.pt"]
    loaded = load_model(directory)
    assert loaded.config == MODEL
    saved = {name: tensor.half().float() for name, tensor in model.state_dict().items()}
    assert_same_weights(saved, loaded.state_dict())
    with Image.open(directory / "samples.png") as samples, Image.open(directory / "loss.png") as loss:
        assert (samples.mode, samples.size) == ("L", (2 * MODEL.width, 2 * MODEL.height))
        assert loss.width > 300
        assert len(np.unique(np.asarray(loss.convert("L")))) > 2


@pytest.mark.parametrize("optimiser", and_slow(["adamw", "muon"], "radam"))
def test_same_recipe_same_weights_and_another_seed_others(tmp_path: Path, optimiser: str) -> None:
    first, again = (run(tmp_path / name, optimiser=optimiser, updates=4) for name in ("first", "again"))
    assert_same_weights(first.state_dict(), again.state_dict())
    assert curve(tmp_path / "first") == curve(tmp_path / "again")
    other = run(tmp_path / "other", optimiser=optimiser, seed=1, updates=4)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_loss_or_gradients_that_are_no_numbers_end_the_run_and_leave_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoppedError):
        run(tmp_path, stop_at=20)
    before = (tmp_path / "model.safetensors").read_bytes()
    clip = "scanline.model.training.optimise.update.clip_gradients"
    with monkeypatch.context() as patch:
        patch.setattr(clip, lambda model, limit: torch.tensor(np.nan))
        with pytest.raises(FloatingPointError, match=r"the norm of the gradients is nan after \d+ updates; the last"):
            run(tmp_path, resume=True)
    with pytest.raises(
        FloatingPointError, match=r"the loss is (nan|inf) after \d+ updates; the last checkpoint in .+ is intact"
    ):
        run(tmp_path, learning_rate=1e30, clip=1e30)
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_bfloat16_learns_too(tmp_path: Path) -> None:
    config = TrainingConfig(**{**RECIPE, "updates": 40, "checkpoint_every": 40})
    train(MODEL, config, IMAGES[:32], IMAGES[32:], tmp_path, precision="bfloat16", compiled=False)
    losses = [float(row["bits_per_dim"]) for row in rows(tmp_path)]
    assert losses[-1] < 0.9 * losses[0]


def test_images_of_another_size_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the images have 10 bytes, the model's 20"):
        train(MODEL, TrainingConfig(**RECIPE), IMAGES[:, :10], IMAGES, tmp_path / "new")
    assert not (tmp_path / "new").exists()
