"""Several processes that share every batch train as one does, and end cleanly where one of them ends."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from scanline.model.training import TrainingConfig
from scanline.model.training.loop import train
from scanline.model.training.optimise.processes import WorkerError, processes
from tests.support.close import assert_close
from tests.support.training.training_runs import IMAGES, MODEL, RECIPE, StoppedError, curve, run

FEW: dict[str, Any] = {"updates": 20, "checkpoint_every": 10, "classes": True}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of two processes."""
    directory = tmp_path_factory.mktemp("whole")
    run(directory, workers=2, **FEW)
    return directory


def weights(directory: Path) -> torch.Tensor:
    state = torch.load(directory / "training.pt", weights_only=True)
    return torch.cat([tensor.flatten() for part in ("model", "average") for tensor in state[part].values()])


def test_two_processes_end_where_one_does(whole: Path, tmp_path: Path) -> None:
    run(tmp_path, **FEW)
    assert_close("weights", weights(tmp_path), weights(whole), bound=1e-3)
    losses = [torch.tensor([float(line.split(",")[1]) for line in curve(path)[1:]]) for path in (tmp_path, whole)]
    assert_close("loss curve", *losses)


def workers() -> list[BaseProcess]:
    """Return the training processes, without engines that other tests have started."""
    return [child for child in multiprocessing.active_children() if child.name != "scanline-engine"]


def test_two_processes_resume_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        run(tmp_path, stop_at=20, workers=2, **FEW)
    run(tmp_path, resume=True, workers=2, **FEW)
    assert torch.equal(weights(whole), weights(tmp_path))
    assert not workers()


def test_a_worker_that_is_killed_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    def kill(row: Any) -> None:
        (worker,) = workers()
        os.kill(worker.pid, signal.SIGKILL)

    config = TrainingConfig(**{**RECIPE, "updates": 1000})
    threads = torch.get_num_threads()
    with pytest.raises(WorkerError, match="training process 2 of 2 was ended by SIGKILL; the last checkpoint is int"):
        train(MODEL, config, IMAGES[:32], IMAGES[32:], tmp_path, compiled=False, workers=2, report=kill)
    assert not workers()
    assert torch.get_num_threads() == threads


def ends_early(*_: object) -> None:
    raise SystemExit(3)


def waits(*_: object) -> None:
    time.sleep(600)


def test_a_worker_that_ends_by_itself_is_named() -> None:
    model = torch.nn.Linear(2, 2)
    model(torch.ones(2)).sum().backward()
    with pytest.raises(WorkerError, match="training process 2 of 3 ended with exit code 3; the last checkpoint is int"):
        average_with_others(ends_early, 3, model)
    assert not workers()


def average_with_others(follow: Callable[..., None], size: int, model: torch.nn.Module) -> None:
    with processes(size, follow) as group:
        group.average_gradients(model, torch.tensor(1.0))


def test_whatever_ends_the_block_ends_the_workers() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_with_a_worker()
    assert not workers()


def interrupted_with_a_worker() -> None:
    with processes(2, waits):
        assert len(workers()) == 1
        raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [0, 3, 16])
def test_a_batch_that_cannot_be_shared_is_refused(tmp_path: Path, workers: int) -> None:
    with pytest.raises(ValueError, match=f"a batch of 8 images cannot be shared by {workers} processes"):
        run(tmp_path / "new", workers=workers)
    assert not (tmp_path / "new").exists()
