"""Branches train weights of their own, go on from their mean, and resume as if they had never stopped."""

import copy
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.training import TrainingConfig
from scanline.model.training.data.batches import batch_at, labels_at
from scanline.model.training.optimise.optimiser import learning_rate
from scanline.model.training.optimise.processes import Group
from scanline.model.training.optimise.update import Updater
from scanline.model.training.run.state import ResumeError, load_state, save_state
from tests.support.close import assert_close
from tests.support.training.training_runs import (
    CLASSES,
    IMAGES,
    LABELS,
    MODEL,
    RECIPE,
    curve,
    forked_workers,
    run,
    state,
)

TWO: dict[str, Any] = {"updates": 10, "branches": 2, "branch_updates": 4, "checkpoint_every": 2}
PARTS = ("model", "average")


def saved(directory: Path) -> dict[str, Any]:
    return torch.load(directory / "training.pt", weights_only=True)


def weights(state: dict[str, Any]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for part in PARTS for tensor in state[part].values()])


@pytest.fixture(scope="module", autouse=True)
def forked() -> Iterator[None]:
    with forked_workers():
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "run"
    run(directory, stop_at=8, then=lambda: shutil.copytree(directory, directory.parent / "part"), classes=True, **TWO)
    return directory


def test_branches_are_what_one_process_computes_in_turn(whole: Path) -> None:
    config = TrainingConfig(**{**RECIPE, **TWO})
    model = replace(MODEL, classes=CLASSES)
    torch.manual_seed(config.seed)
    first = Updater(Transformer(model), config, Group(), torch.float32, compiled=False)
    second = Updater(Transformer(model), config, Group(), torch.float32, compiled=False)
    second.load_state_dict(first.state_dict())
    for update in range(10):
        for rank, updater in enumerate((first, second)):
            batch = batch_at(IMAGES[:32], 2 * update + rank, config, model)
            labels = labels_at(LABELS[:32], 2 * update + rank, config, 10)
            updater.update(batch, update, learning_rate(config, update), labels)
        if update in (3, 7):
            mean = mean_of(first.state_dict(), second.state_dict())
            for updater in (first, second):
                updater.load_state_dict(copy.deepcopy({**mean, "model": mean["average"]}))
    found = saved(whole)
    assert_close("first", weights(found), weights(first.state_dict()), bound=1e-3)
    assert_close("second", weights(found["others"][0]), weights(second.state_dict()), bound=1e-3)
    assert not torch.equal(weights(found), weights(found["others"][0]))


def mean_of(first: Any, second: Any) -> Any:
    if isinstance(first, torch.Tensor):
        return (first + second) / 2
    if isinstance(first, dict):
        return {key: mean_of(first[key], second[key]) for key in first}
    return [mean_of(*pair) for pair in zip(first, second, strict=True)] if isinstance(first, list) else first


def test_the_model_is_the_mean_of_the_averages(whole: Path) -> None:
    found = saved(whole)
    for name, weight in load_model(whole).state_dict().items():
        mean = (found["average"][name] + found["others"][0]["average"][name]) / 2
        assert torch.equal(weight, mean.half().float()), name  # as it is saved


def test_a_run_that_was_stopped_between_means_resumes_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    part = shutil.copytree(whole.parent / "part", tmp_path, dirs_exist_ok=True)  # of 6 updates
    model = run(part, resume=True, classes=True, **TWO)
    assert state(part) == state(whole)
    assert curve(part) == curve(whole)
    assert (part / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert_close("weights", model.head.weight, load_model(whole).head.weight, bound=1e-3)


@pytest.mark.parametrize("others", [[], [{}], "no branches"])
def test_a_state_without_all_of_its_branches_is_refused(whole: Path, tmp_path: Path, others: Any) -> None:
    save_state(tmp_path, saved(whole) | {"others": others})
    config, model = TrainingConfig(**{**RECIPE, **TWO}), replace(MODEL, classes=CLASSES)
    with pytest.raises(ResumeError, match=r"training.pt (has 1 of 2 branches|is not a training state of this program)"):
        load_state(tmp_path, model, config, torch.device("cpu"))


def test_branches_beside_processes_that_share_batches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="several branches, or several processes that share every batch, but not both"):
        run(tmp_path / "new", workers=2, **TWO)
    assert not (tmp_path / "new").exists()


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(FloatingPointError, match=re.escape("the norm of the weights is nan after 1 updates; the last")):
        run(tmp_path, updates=1, warm_up=0, learning_rate=1e38)
    assert not list(tmp_path.iterdir())
