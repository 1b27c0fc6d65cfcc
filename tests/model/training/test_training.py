"""Training: configurations, presets, and a short run of each kind."""

import csv
import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from scanline.model.datasets import of_shape
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.training import TrainingConfig
from scanline.model.training.presets import PRESETS
from scanline.model.training.run.clock import ROW_UPDATES
from scanline.model.training.run.loop import train
from scanline.model.training.run.plateau import plateau_recipe
from scanline.model.training.run.sizing import count_weights
from scanline.model.training.run.state import OTHER_BYTES, room_for_state
from tests.support.saved_models import assert_same_weights, files
from tests.support.training.training_runs import IMAGES, MODEL, RECIPE, StoppedError, curve, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    return directory, run(directory, picture=True, checkpoint_every=30, updates=50)


def rows(directory):
    with (directory / "loss.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_curve_shows_a_falling_loss_and_at_checkpoints_the_average_s(
    finished,
):
    directory, model = finished
    found = rows(directory)
    assert ROW_UPDATES == 20
    tests = [(20, False), (30, True), (40, False), (50, True)]
    assert [(int(row["update"]), row["test_bits_per_dim"] != "") for row in found] == tests
    assert float(found[-1]["bits_per_dim"]) < 0.9 * float(found[0]["bits_per_dim"])
    tested = bits_per_dim(model, IMAGES[32:38]).mean()
    assert float(found[-1]["test_bits_per_dim"]) == pytest.approx(tested, rel=1e-6)


def test_a_checkpoint_leaves_the_averaged_model_and_two_pictures(
    finished,
):
    directory, model = finished
    expected = [
        "config.json",
        "loss.csv",
        "loss.png",
        "model.safetensors",
        "samples.png",
        "training.pt",
    ]
    assert files(directory) == expected
    loaded = load_model(directory)
    assert loaded.config == MODEL
    assert_same_weights(
        {name: x.half().float() for name, x in model.state_dict().items()}, loaded.state_dict()
    )
    with (
        Image.open(directory / "samples.png") as samples,
        Image.open(directory / "loss.png") as loss,
    ):
        assert (samples.mode, samples.size) == ("L", (2 * MODEL.width, 2 * MODEL.height))
        assert loss.width > 300
        assert len(np.unique(np.asarray(loss.convert("L")))) > 2


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_same_recipe_same_weights_and_another_seed_others(tmp_path, optimiser):
    first, again = (
        run(tmp_path / name, optimiser=optimiser, updates=4) for name in ("first", "again")
    )
    assert_same_weights(first.state_dict(), again.state_dict())
    assert curve(tmp_path / "first") == curve(tmp_path / "again")
    other = run(tmp_path / "other", optimiser=optimiser, seed=1, updates=4)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_loss_or_gradients_that_are_no_numbers_end_the_run_and_leave_the_last_checkpoint(
    tmp_path, monkeypatch
):
    with pytest.raises(StoppedError):
        run(tmp_path, stop_at=20)
    before = (tmp_path / "model.safetensors").read_bytes()
    clip = "scanline.model.training.optimise.update.clip_gradients"
    with monkeypatch.context() as patch:
        patch.setattr(clip, lambda model, limit: torch.tensor(np.nan))
        with pytest.raises(
            FloatingPointError,
            match=r"the norm of the gradients is nan after \d+ updates; the last",
        ):
            run(tmp_path, resume=True)
    with pytest.raises(
        FloatingPointError, match=r"the loss is (nan|inf) after \d+ updates; the last .+ is intact"
    ):
        run(tmp_path, learning_rate=1e30, clip=1e30)
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_the_weights_at_the_end_of_a_plateau_are_kept_for_a_run_that_goes_on(
    tmp_path,
):
    run(tmp_path / "run", decay=0.4, updates=20, warm_up=0)
    run(tmp_path / "part", schedule="constant", updates=12, warm_up=0)
    kept = load_model(tmp_path / "run" / "plateau")
    part = torch.load(tmp_path / "part" / "training.pt")["model"]
    assert_same_weights(
        {name: weight.half().float() for name, weight in part.items()}, kept.state_dict()
    )
    recipe = plateau_recipe(tmp_path / "run" / "plateau", TrainingConfig(updates=7, minutes=3.0))
    assert recipe == TrainingConfig(
        **{**RECIPE, "decay": 0.4, "warm_up": 0, "updates": 7, "minutes": 3.0, "seed": 1}
    )
    (tmp_path / "run" / "plateau" / "recipe.json").write_text('{"updates": "many"}')
    with pytest.raises(
        ValueError, match=r"recipe\.json is not a recipe of this version of the program"
    ):
        plateau_recipe(tmp_path / "run" / "plateau", recipe)


def test_a_run_of_minutes_that_is_cut_off_between_tests_goes_on_from_its_last_save(
    tmp_path, monkeypatch
):
    """By a clock that goes on by 0.1 s whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr(
        "scanline.model.training.run.clock.time",
        SimpleNamespace(monotonic=lambda: next(ticks) / 10),
    )
    monkeypatch.setattr("scanline.model.training.run.clock.SAVE_SECONDS", 1.0)
    timed = {"updates": 10**6, "minutes": 0.3}
    with pytest.raises(StoppedError):
        run(tmp_path, stop_at=20, **timed)
    saved = torch.load(tmp_path / "training.pt")["update"]
    assert 10 < saved < 20
    assert not (tmp_path / "samples.png").exists()
    run(tmp_path, resume=True, **timed)
    found = rows(tmp_path)
    assert int(found[-1]["update"]) > 20
    assert saved in [int(row["update"]) for row in found]
    assert [row["test_bits_per_dim"] != "" for row in found] == [False] * (len(found) - 1) + [True]


def test_a_run_keeps_its_files_within_a_limit(tmp_path):
    weights = Transformer(MODEL).parameter_count
    run(tmp_path, limit=OTHER_BYTES + 20 * weights + 20_000, updates=10)
    assert torch.load(tmp_path / "training.pt")["optimiser"]
    least = OTHER_BYTES + 4 * weights
    with pytest.raises(ValueError, match=f"the files of {weights:,} weights need 2.0 MB, not 1.9"):
        run(tmp_path / "new", limit=1.9e6)
    run(tmp_path, limit=least, updates=15, resume=True)
    state = torch.load(tmp_path / "training.pt")
    assert not state["optimiser"]
    assert state["model"]["head.weight"].dtype == torch.float16
    assert (tmp_path / "training.pt").stat().st_size < 20 * weights
    before = load_model(tmp_path).state_dict()
    resumed = run(tmp_path, limit=least, updates=16, resume=True, average=0.9)
    moved = max(
        (resumed.state_dict()[name] - weight).abs().max().item() for name, weight in before.items()
    )
    assert 0 < moved < 0.1


def test_images_of_another_size_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="the images have 10 bytes, the model's 20"):
        train(MODEL, TrainingConfig(**RECIPE), IMAGES[:, :10], IMAGES, tmp_path / "new")
    assert not (tmp_path / "new").exists()


WRONG = {
    "no updates": ({"updates": 0}, "updates must be at least 1, not 0"),
    "no minutes": ({"minutes": 0.0}, "minutes must be above 0, not 0.0"),
    "no checkpoints": ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, not 0"),
    "no samples": ({"sample_images": -1}, "sample_images must be at least 1, not -1"),
    "no rate": ({"learning_rate": 0.0}, "learning_rate and clip must be above 0"),
    "negative clip": ({"clip": -1.0}, "learning_rate and clip must be above 0"),
    "no decay": ({"decay": 0.0}, "average, decay and second_moment must be shares of 1"),
    "negative warm-up": ({"warm_up": -1}, "warm_up must be at least 0, not -1"),
    "negative seed": ({"seed": -1}, "seed must be at least 0, not -1"),
    "every label left out": (
        {"unlabelled": 1.0},
        "unlabelled must be above 0 and below 1, not 1.0",
    ),
    "optimiser": ({"optimiser": "sgd"}, "optimiser must be one of adamw, muon, not 'sgd'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_field(case):
    changes, sentence = WRONG[case]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        TrainingConfig(**{"updates": 10, **changes})


def test_models_have_the_shape_of_their_data_and_the_papers_sizes():
    for name, preset in PRESETS.items():
        config = preset.model
        assert of_shape(config.height, config.width, config.channels) == preset.dataset, name
    base = PRESETS["cifar10-base"]
    # 64 MiB, as docs/gpu.md says
    assert room_for_state(67e6, count_weights(base.model), base.training)
    for name, layers in (("mnist", 8), ("cifar10", 16)):
        config = PRESETS[name].model
        assert (config.layers, config.heads, config.key_width, config.value_width) == (
            layers,
            8,
            32,
            32,
        )
