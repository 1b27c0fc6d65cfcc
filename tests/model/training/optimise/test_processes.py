"""Several processes that share every batch train as one does, and end cleanly where
one of them ends. Branches train weights of their own, go on from their mean, and
resume as if they had never stopped."""

import copy
import multiprocessing
import os
import re
import shutil
import signal
import threading
from dataclasses import replace

import pytest
import torch

from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.training import TrainingConfig
from scanline.model.training.data.batches import batch_at, labels_at
from scanline.model.training.optimise.cuda_graph_updater import RecordedUpdater
from scanline.model.training.optimise.optimiser import learning_rate
from scanline.model.training.optimise.processes import Group, WorkerError, processes
from scanline.model.training.optimise.update import Updater
from scanline.model.training.run.state import ResumeError, load_state, save_state
from tests.support.close import assert_close
from tests.support.kernels.gpu import ON_GPU
from tests.support.training import training_runs as runs
from tests.support.training.training_runs import StoppedError, curve, forked_workers, run, state

FEW = {
    "updates": 10,
    "checkpoint_every": 5,
    "schedule": "constant",
    "classes": True,
}


def saved(directory):
    return torch.load(directory / "training.pt", weights_only=True)


def weights(state):
    return torch.cat(
        [tensor.flatten() for part in ("model", "average") for tensor in state[part].values()]
    )


def workers():
    """Return the training processes, without engines that other tests have started."""
    return [child for child in multiprocessing.active_children() if child.name != "scanline-engine"]


def kill_worker():
    (worker,) = workers()
    assert worker.pid
    os.kill(worker.pid, signal.SIGKILL)


def test_two_processes_train_as_one_does_until_one_is_killed(tmp_path):
    threads = torch.get_num_threads()
    sentence = "training process 2 of 2 was ended by SIGKILL, as when the machine's memory is full"
    run(tmp_path / "one", **FEW)  # first, so that the fork has all that torch imports for it
    with forked_workers(), pytest.raises(WorkerError, match=sentence):
        run(tmp_path / "two", stop_at=10, then=kill_worker, workers=2, **{**FEW, "updates": 1000})
    assert not workers()
    assert torch.get_num_threads() == threads
    one = tmp_path / "one"
    two = tmp_path / "two"
    assert_close("weights", weights(saved(one)), weights(saved(two)), bound=1e-3)
    losses = [
        torch.tensor([float(line.split(",")[1]) for line in curve(path)[1:3]])
        for path in (one, two)
    ]
    assert_close("loss curve", *losses)


@pytest.mark.skipif(ON_GPU, reason="there an update of a model on the CPU would be recorded")
def test_processes_whose_updates_cannot_be_recorded_average_equally_often(tmp_path, monkeypatch):
    run(tmp_path / "one", **FEW)
    monkeypatch.setattr("scanline.model.training.run.loop.new_updater", RecordedUpdater)
    with forked_workers():
        run(tmp_path / "two", workers=2, **FEW)
    assert_close(
        "weights", weights(saved(tmp_path / "one")), weights(saved(tmp_path / "two")), bound=1e-3
    )


@pytest.mark.slow  # branches resume two processes too; here the second one is started as a user's
def test_two_processes_resume_bit_for_bit(tmp_path):
    run(tmp_path / "whole", workers=2, **FEW)
    with pytest.raises(StoppedError):
        run(tmp_path / "split", stop_at=10, workers=2, **FEW)
    run(tmp_path / "split", resume=True, workers=2, **FEW)
    assert torch.equal(weights(saved(tmp_path / "whole")), weights(saved(tmp_path / "split")))
    assert not workers()


def ends_early(*_):
    raise SystemExit(3)


@pytest.mark.slow
def test_a_worker_that_ends_by_itself_is_named():
    model = torch.nn.Linear(2, 2)
    model(torch.ones(2)).sum().backward()
    with (
        pytest.raises(WorkerError, match="training process 2 of 3 ended with exit code 3"),
        processes(3, ends_early) as group,
    ):
        group.average_gradients(model, torch.tensor(1.0))
    assert not workers()


def takes_all_memory(*_):
    torch.empty(1 << 60)


def test_what_a_worker_had_no_memory_for_is_the_reason(capfd):
    sentence = "training process 2 of 2 ended with exit code 1, since there is not enough memory: "
    with (
        forked_workers(),
        pytest.raises(WorkerError, match=sentence),
        processes(2, takes_all_memory) as group,
    ):
        group.gather({})
    assert "Traceback" not in capfd.readouterr().err


def waits(*_):
    threading.Event().wait()


def test_a_closed_standard_output_is_not_the_end_of_a_worker():
    """As of `scanline train --workers 2 | head`."""
    with forked_workers(), pytest.raises(BrokenPipeError), processes(2, waits):
        raise BrokenPipeError
    assert not workers()


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ({"workers": 0}, "a batch of 8 images cannot be shared by 0 processes"),
        ({"workers": 3}, "a batch of 8 images cannot be shared by 3 processes"),
        (
            {"branches": 2, "workers": 2},
            "several branches, or several processes that share every batch, but not both",
        ),
    ],
)
def test_a_batch_that_cannot_be_shared_so_is_refused(tmp_path, recipe, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(tmp_path / "new", **recipe)
    assert not (tmp_path / "new").exists()


TWO = {"updates": 10, "branches": 2, "branch_updates": 4, "checkpoint_every": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of two branches; "part" beside it is of 6 updates."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    with forked_workers():
        part = directory.parent / "part"
        run(
            directory, stop_at=8, then=lambda: shutil.copytree(directory, part), classes=True, **TWO
        )
    return directory


def test_branches_are_what_one_process_computes_in_turn(whole):
    config = TrainingConfig(**{**runs.RECIPE, **TWO})
    model = replace(runs.MODEL, classes=runs.CLASSES)
    torch.manual_seed(config.seed)
    first, second = (
        Updater(Transformer(model), config, Group(), torch.float32, compiled=False)
        for _ in range(2)
    )
    second.load_state_dict(first.state_dict())
    for update in range(10):
        for rank, updater in enumerate((first, second)):
            batch = batch_at(runs.IMAGES[:32], 2 * update + rank, config, model)
            labels = labels_at(runs.LABELS[:32], 2 * update + rank, config)
            updater.update(batch, update, learning_rate(config, update), labels)
        if update in (3, 7):
            mean = mean_of(first.state_dict(), second.state_dict())
            for updater in (first, second):
                updater.load_state_dict(copy.deepcopy({**mean, "model": mean["average"]}))
    found = saved(whole)
    assert_close("first", weights(found), weights(first.state_dict()), bound=1e-3)
    assert_close("second", weights(found["others"][0]), weights(second.state_dict()), bound=1e-3)
    assert not torch.equal(weights(found), weights(found["others"][0]))


def mean_of(first, second):
    if isinstance(first, torch.Tensor):
        return (first + second) / 2
    if isinstance(first, dict):
        return {key: mean_of(first[key], second[key]) for key in first}
    return (
        [mean_of(*pair) for pair in zip(first, second, strict=True)]
        if isinstance(first, list)
        else first
    )


def test_the_model_is_the_mean_of_the_averages(whole):
    found = saved(whole)
    for name, weight in load_model(whole).state_dict().items():
        mean = (found["average"][name] + found["others"][0]["average"][name]) / 2
        assert torch.equal(weight, mean.half().float()), name  # as it is saved


def test_a_run_that_was_stopped_between_means_resumes_bit_for_bit(whole, tmp_path):
    part = shutil.copytree(whole.parent / "part", tmp_path, dirs_exist_ok=True)
    with forked_workers():
        model = run(part, resume=True, classes=True, **TWO)
    assert state(part) == state(whole)
    assert curve(part) == curve(whole)
    assert (part / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert_close("weights", model.head.weight, load_model(whole).head.weight, bound=1e-3)


@pytest.mark.parametrize("others", [[], [{}], "no branches"])
def test_a_state_without_all_of_its_branches_is_refused(whole, tmp_path, others):
    save_state(tmp_path, saved(whole) | {"others": others})
    config = TrainingConfig(**{**runs.RECIPE, **TWO})
    model = replace(runs.MODEL, classes=runs.CLASSES)
    with pytest.raises(
        ResumeError,
        match=r"training.pt (has 1 of 2 branches|is not a training state of this program)",
    ):
        load_state(tmp_path, model, config, torch.device("cpu"))


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    with pytest.raises(
        FloatingPointError,
        match=re.escape("the norm of the weights is nan after 1 updates; the last"),
    ):
        run(tmp_path, updates=1, warm_up=0, learning_rate=1e38)
    assert not list(tmp_path.iterdir())
