"""Several processes that share every batch train as one does, and end cleanly where one of them ends."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from scanline.model.training.optimise.processes import WorkerError, processes
from tests.support.close import assert_close
from tests.support.training.training_runs import StoppedError, curve, forked_workers, run

FEW: dict[str, Any] = {"updates": 10, "checkpoint_every": 5, "schedule": "constant", "classes": True}


def weights(directory: Path) -> torch.Tensor:
    state = torch.load(directory / "training.pt", weights_only=True)
    return torch.cat([tensor.flatten() for part in ("model", "average") for tensor in state[part].values()])


def workers() -> list[BaseProcess]:
    """Return the training processes, without engines that other tests have started."""
    return [child for child in multiprocessing.active_children() if child.name != "scanline-engine"]


def kill_worker() -> None:
    (worker,) = workers()
    assert worker.pid
    os.kill(worker.pid, signal.SIGKILL)


def test_two_processes_train_as_one_does_until_one_is_killed(tmp_path: Path) -> None:
    threads, sentence = (
        torch.get_num_threads(),
        "training process 2 of 2 was ended by SIGKILL; the last checkpoint is int",
    )
    run(tmp_path / "one", **FEW)  # first, so that the fork has all that torch imports for it
    with forked_workers(), pytest.raises(WorkerError, match=sentence):
        run(tmp_path / "two", stop_at=10, then=kill_worker, workers=2, **{**FEW, "updates": 1000})
    assert not workers()
    assert torch.get_num_threads() == threads
    one, two = tmp_path / "one", tmp_path / "two"
    assert_close("weights", weights(one), weights(two), bound=1e-3)
    losses = [torch.tensor([float(line.split(",")[1]) for line in curve(path)[1:3]]) for path in (one, two)]
    assert_close("loss curve", *losses)


@pytest.mark.slow  # test_branches.py resumes two processes too; here the second one is started as a user's
def test_two_processes_resume_bit_for_bit(tmp_path: Path) -> None:
    run(tmp_path / "whole", workers=2, **FEW)
    with pytest.raises(StoppedError):
        run(tmp_path / "split", stop_at=10, workers=2, **FEW)
    run(tmp_path / "split", resume=True, workers=2, **FEW)
    assert torch.equal(weights(tmp_path / "whole"), weights(tmp_path / "split"))
    assert not workers()


def ends_early(*_: object) -> None:
    raise SystemExit(3)


@pytest.mark.slow
def test_a_worker_that_ends_by_itself_is_named() -> None:
    model = torch.nn.Linear(2, 2)
    model(torch.ones(2)).sum().backward()
    with (
        pytest.raises(WorkerError, match="training process 2 of 3 ended with exit code 3; the last checkpoint is int"),
        processes(3, ends_early) as group,
    ):
        group.average_gradients(model, torch.tensor(1.0))
    assert not workers()


def waits(*_: object) -> None:
    threading.Event().wait()


def test_a_closed_standard_output_is_not_the_end_of_a_worker() -> None:
    """As of `scanline train --workers 2 | head`."""
    with forked_workers(), pytest.raises(BrokenPipeError), processes(2, waits):
        raise BrokenPipeError
    assert not workers()


@pytest.mark.parametrize("workers", [0, 3])
def test_a_batch_that_cannot_be_shared_is_refused(tmp_path: Path, workers: int) -> None:
    with pytest.raises(ValueError, match=f"a batch of 8 images cannot be shared by {workers} processes"):
        run(tmp_path / "new", workers=workers)
    assert not (tmp_path / "new").exists()


def test_contrast_without_classes_or_with_too_few_images_for_a_process_is_refused(tmp_path: Path) -> None:
    for workers, sentence in ((1, "images of at least two classes"), (4, "at least 4 images of a batch in each of 4")):
        with pytest.raises(ValueError, match=f"contrast needs {sentence}"):
            run(tmp_path / "new", workers=workers, classes=workers > 1, contrast=6.0)
    assert not (tmp_path / "new").exists()
