"""Whole == split and resumed, for training: a run that was
stopped anywhere ends in the same bits.
"""

import re
import shutil
from pathlib import Path

import pytest
import torch

from scanline.model.training import TrainingConfig
from scanline.model.training.run.curve import Curve
from scanline.model.training.run.state import ResumeError, load_state, save_state, saved_configs
from tests.support import small_models
from tests.support.full_disk import full_disk
from tests.support.saved_models import assert_same_weights
from tests.support.training.training_runs import (
    MODEL,
    RECIPE,
    StoppedError,
    curve,
    run,
    state,
    stop,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    run(directory)
    return directory


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stopped")
    with pytest.raises(StoppedError):
        run(directory, 20)
    return directory


def assert_same_end(expected, found):
    assert state(expected) == state(found)
    assert curve(expected) == curve(found)
    for name in ("config.json", "model.safetensors", "samples.png"):
        assert (expected / name).read_bytes() == (found / name).read_bytes(), name


def test_stopped_before_checkpoints_and_resumed(whole, stopped, tmp_path):
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    for stop_at in (20, 25):
        with pytest.raises(StoppedError):
            run(tmp_path, stop_at, resume=True)
    run(tmp_path, resume=True)
    assert_same_end(whole, tmp_path)


def test_another_optimiser_resumes_too(tmp_path):
    recipe = {"optimiser": "adamw", "schedule": "constant"}
    whole = run(tmp_path / "whole", updates=6, **recipe)
    run(tmp_path / "split", updates=4, **recipe)
    split = run(tmp_path / "split", updates=6, resume=True, **recipe)
    assert_same_weights(whole.state_dict(), split.state_dict())


def test_a_state_of_before_there_were_classes_is_resumed(whole, tmp_path):
    saved = torch.load(whole / "training.pt", weights_only=True)
    del saved["model_config"]["classes"], saved["config"]["unlabelled"]
    save_state(tmp_path, saved)
    assert (
        load_state(tmp_path, MODEL, TrainingConfig(**RECIPE), torch.device("cpu"))["update"] == 25
    )


def test_the_state_of_a_former_option_is_resumed_only_if_it_was_not_used(whole, tmp_path):
    saved = torch.load(whole / "training.pt", weights_only=True)
    saved["config"] |= {"contrast": 0.0, "redrawn": 0.0}
    save_state(tmp_path, saved)
    model, config = saved_configs(tmp_path)
    assert config == TrainingConfig(**RECIPE)
    assert load_state(tmp_path, model, config, torch.device("cpu"))["update"] == 25
    saved["config"]["contrast"] = 6.0
    save_state(tmp_path, saved)
    model, config = saved_configs(tmp_path)
    sentence = f"is of a run with contrast 6.0, which this version lacks; --from {tmp_path} continues from its weights"
    with pytest.raises(ResumeError, match=re.escape(sentence)):
        load_state(tmp_path, model, config, torch.device("cpu"))


def test_killed_in_a_save_and_resumed(whole, stopped, tmp_path, monkeypatch):
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    for save in (
        "formats.checkpoint",
        "training.run.curve.Curve",
        "training.run.state.torch",
        "images.contact_sheet",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"scanline.model.{save}.save", lambda *_: stop())
            with pytest.raises(StoppedError):
                run(tmp_path, resume=True)
    run(tmp_path, resume=True)
    assert_same_end(whole, tmp_path)


def test_a_full_disk_in_mid_save_leaves_the_last_state(tmp_path):
    save_state(tmp_path, {"update": 1})
    with full_disk(100_000), pytest.raises(OSError, match="File too large") as caught:
        save_state(tmp_path, {"update": 2, "model": torch.zeros(100_000)})
    assert caught.value.filename == str(tmp_path / "training.pt")
    assert torch.load(tmp_path / "training.pt", weights_only=True) == {"update": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["training.pt"]


def test_a_finished_run_has_nothing_left_to_do_and_a_new_one_begins_a_new_curve(whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "training.pt").read_bytes()
    run(tmp_path, resume=True)
    assert (tmp_path / "training.pt").read_bytes() == before
    run(tmp_path, updates=5)
    assert [row.update for row in Curve(tmp_path, until=1000).rows] == [5]


@pytest.mark.parametrize(
    "changes", [{"updates": 200}, {"schedule": "constant"}, {"checkpoint_every": 7}, {"decay": 0.5}]
)
def test_what_a_resumed_run_may_change(whole, changes):
    config = TrainingConfig(**{**RECIPE, **changes})
    assert load_state(whole, MODEL, config, torch.device("cpu"))["update"] == 25


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"branches": 2}, "training.pt is of another recipe: branches is 1 there, 2 here"),
        ({"seed": 1}, "training.pt is of another recipe: seed is 0 there, 1 here"),
        (
            {"optimiser": "adamw"},
            "training.pt is of another recipe: optimiser is muon there, adamw here",
        ),
        ({}, "is of another model: components is 3 there, 4 here"),
    ],
)
def test_another_recipe_or_model_is_refused(whole, changes, sentence):
    model = MODEL if changes else small_models.config(layers=1, components=4)
    with pytest.raises(ResumeError, match=re.escape(sentence)):
        load_state(whole, model, TrainingConfig(**{**RECIPE, **changes}), torch.device("cpu"))


NO_STATE = "training.pt is not a training state of this program"
DAMAGE = {
    "missing": (lambda path: path.unlink(), "there is nothing to resume: "),
    "text": (
        lambda path: path.write_text("hello\nworld\n" * 50),
        "training.pt is not a training state",
    ),
    "half": (
        lambda path: path.write_bytes(path.read_bytes()[:20_000]),
        "training.pt is not a training state",
    ),
    "no state": (lambda path: torch.save([1, 2], path), NO_STATE),
    "all but the weights": (
        lambda path: torch.save({"config": {}, "model_config": {}}, path),
        NO_STATE,
    ),
    "a function": (
        lambda path: torch.save({"config": print}, path),
        "training.pt is not a training state",
    ),
    "a directory": (
        lambda path: (path.unlink(), path.mkdir()),
        "training.pt is not a training state",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_wrong_state(whole, tmp_path, case):
    damage, sentence = DAMAGE[case]
    damage(Path(shutil.copy(whole / "training.pt", tmp_path)))
    with pytest.raises(ResumeError, match=re.escape(sentence)) as error:
        run(tmp_path, resume=True)
    assert "\n" not in str(error.value)
