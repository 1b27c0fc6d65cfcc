"""The training loop: updates, a row of the loss curve every so many of them, and checkpoints.

A checkpoint in the model's directory is: the averaged weights as a model that can be served, the
run's state for --resume, the loss curve, and from time to time a sheet of samples. Where the rate
stays on a plateau, the weights at its end are kept for a run that goes on from there.
"""

import logging
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from errno import EACCES
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.base.resources import cores
from scanline.model.datasets.split import Images
from scanline.model.evaluation.likelihood import BATCH, bits, bits_per_dim
from scanline.model.formats.checkpoint import save_model
from scanline.model.images import contact_sheet
from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.prefetch import Batches
from scanline.model.training.optimise.cuda_graph_updater import new_updater
from scanline.model.training.optimise.local_sgd import Branches
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import BACKENDS, Group, processes
from scanline.model.training.run.clock import RunClock
from scanline.model.training.run.curve import Curve, Row
from scanline.model.training.run.plateau import save_plateau
from scanline.model.training.run.sizing import count_weights
from scanline.model.training.run.state import load_state, room_for_state, save_state

# Processes that prepare a GPU's batches: one chooses the positions of 128 digits in some 4 ms, an
# H100 trains on them for 12, and each GPU of a machine needs all of a larger batch.
PREPARING = 8

log = logging.getLogger("scanline.training")

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """What every process of a run needs; workers get it pickled."""

    model: ModelConfig
    config: TrainingConfig
    images: Images  # [n, N] uint8
    labels: np.ndarray | None  # [n] int64
    directory: Path
    start: Weights | None
    resume: bool
    dtype: torch.dtype
    compiled: bool | Path

    def state(self, device: torch.device) -> dict[str, Any]:
        """Return the state to resume from, empty for a new run."""
        return load_state(self.directory, self.model, self.config, device) if self.resume else {}


def _without_first_row(gradient: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a table of classes [1 + classes, D] that keeps its first row, which is
    that of no class."""
    gradient = gradient.clone()
    gradient[0] = 0
    return gradient


class Trainer:
    """One process of a run, which computes its share of every update, or all updates of its own
    branch."""

    def __init__(
        self, group: Group, inputs: Inputs, device: torch.device, state: dict[str, Any]
    ) -> None:
        self.inputs = inputs
        self.device = device
        self.first = state.get("update", 0)
        self.seconds = state.get("seconds", 0.0)
        torch.manual_seed(inputs.config.seed)
        model = Transformer(inputs.model).to(device)
        if inputs.start is not None:
            model.load_state_dict(inputs.start)
        if inputs.config.classes_only:
            for name, weight in model.named_parameters():
                is_of_classes = name == "classes" or name.endswith(".class_bias")
                weight.requires_grad_(is_of_classes)
                if is_of_classes:
                    weight.register_hook(_without_first_row)
        shared = group if inputs.config.branches == 1 else Group()
        updater = new_updater(model, inputs.config, shared, inputs.dtype, inputs.compiled)
        self.branches = Branches(group, inputs.config, updater)
        if state:
            self.branches.load_state_dict(state)
            if not state["optimiser"]:
                log.warning(
                    "the checkpoint had no room for the optimiser's state, which starts anew"
                )
        self.batches = Batches(inputs.images, inputs.labels, inputs.config, inputs.model)
        preparing = min(PREPARING, max(cores() // group.size, 1))
        self.prepared = None
        if device.type == "cuda":
            self.prepared = self.batches.prepared(self.first, preparing)

    def close(self) -> None:
        """Free what must not outlive the process group."""
        self.branches.updater.close()

    def update(self, number: int, rate: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
        """Move the weights by the update of this number, at the first process's rate, and return
        the loss and the norm of its gradient."""
        rate = self.branches.rate(rate)
        if self.prepared is None:
            batch, labels, positions = self.batches[self.branches.batch_number(number)]
        else:
            batch, labels, positions = next(self.prepared)
        batch = batch.to(self.device)
        if labels is not None:
            labels = labels.to(self.device)
        if positions is not None:
            positions = positions.to(self.device)
        measured = self.branches.updater.update(batch, number, rate, labels, positions)
        self.branches.average(number + 1)
        return measured


def train(
    model_config: ModelConfig,
    config: TrainingConfig,
    images: Images,
    test_images: Images,
    directory: Path,
    *,
    labels: np.ndarray | None = None,
    start: Weights | None = None,
    resume: bool = False,
    device: torch.device | str = "cpu",
    precision: str | None = None,
    compiled: bool | Path = True,
    limit: float | None = None,
    workers: int | None = None,
    report: Callable[[Row], None] = lambda row: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Transformer:
    """Train on images [n, N] uint8 and return the averaged model, which is also saved in
    `directory`.

    labels: of the images, [n] int64, k + 1 for class k, for a model with classes; a share of them
    is left out at random in each update. start: initial weights, random by default. resume:
    continue from the state in `directory`, on a CPU bit for bit as if the run had never stopped;
    ResumeError where there is none, or one of another model or recipe. precision: of products,
    float32 or bfloat16; by default bfloat16 where the hardware has it. compiled: use torch.compile
    where it works; a path is that of its cache (see `CompiledLoss`). limit: of the bytes of all
    files of the run. workers: processes that share every batch, by default one for each GPU, or
    one; these, and the branches of the recipe, are spawned, so that a script that calls this needs
    `if __name__ == "__main__"`. report: called with each row of the loss curve. interrupted: called
    after every update; if it returns True, the run ends with a checkpoint that has neither a test
    figure nor a new sheet.

    ValueError for inputs that do not fit the model or each other; FloatingPointError where the
    loss, its gradients or the weights are not finite; WorkerError where a process ends.
    """
    # Everything is checked now, and not at the first checkpoint.
    device = torch.device(device)
    dtype = product_dtype(device, precision)
    inputs = Inputs(model_config, config, images, labels, directory, start, resume, dtype, compiled)
    _check_images(inputs, test_images)
    room = None if limit is None else room_for_state(limit, count_weights(model_config), config)
    size = _process_count(config, workers, device)
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(EACCES, "Permission denied", str(directory))
    state = inputs.state(device)
    # A CUDA graph must go before the process group whose exchange it repeats.
    with (
        processes(size, _follow, inputs, device, backend=BACKENDS[device.type]) as group,
        closing(Trainer(group, inputs, group.device(device), state)) as trainer,
    ):
        curve = Curve(directory, trainer.first)
        clock = RunClock(config, trainer.seconds)
        # loss and gradient norm of the updates since the last row
        recent: list[tuple[torch.Tensor, torch.Tensor]] = []
        done = trainer.first
        ended = clock.ended(done)
        stopped = False
        cooling = clock.cooling(done)
        while not ended and not stopped:
            rate = clock.rate(done)
            recent.append(trainer.update(done, rate))
            done += 1
            ended = clock.ended(done)
            stopped = not ended and interrupted()
            at_checkpoint = ended or stopped or clock.checkpoint_due(done)
            tests = at_checkpoint and not stopped and (ended or clock.test_due())
            if not cooling and clock.cooling(done):
                cooling = True
                save_plateau(trainer.branches.updater.model, config, directory)
            # Collecting the branches' states makes branches.model their mean, which the row tests.
            state = trainer.branches.state_dict() if at_checkpoint else {}
            # The losses leave the device only for a row: reading each would wait for every update
            # on a GPU.
            if clock.row_due(done) or at_checkpoint:
                loss = torch.stack([loss for loss, _ in recent]).mean().item()
                norm = torch.stack([norm for _, norm in recent]).mean().item()
                recent.clear()
                _check_finite(trainer, done, loss, norm)
                tested = None
                if tests:
                    tested = _tested(trainer.branches.model, test_images[: config.evaluate_images])
                curve.rows.append(Row(done, loss, rate, norm, clock.seconds, tested))
                report(curve.rows[-1])
            if at_checkpoint:
                # On a GPU the kernels that paint take longer to compile than a sheet is worth
                # before the end.
                paints = tests and (ended or device.type == "cpu")
                _save_checkpoint(
                    trainer, curve, state, done, clock.seconds, room, with_samples=paints
                )
                clock.checkpoint_written(curve.rows[-1].seconds, tests)
    return trainer.branches.model


def _check_images(inputs: Inputs, test_images: Images) -> None:
    size = inputs.model.bytes
    classes = len(inputs.model.classes)
    labels = inputs.labels
    for images in (inputs.images, test_images):
        if images.shape[1] != size:
            raise ValueError(f"the images have {images.shape[1]} bytes, the model's {size}")
    count = len(inputs.images)
    if labels is not None and (len(labels) != count or labels.min() < 0 or labels.max() > classes):
        raise ValueError(f"each of the {count} images needs a label from 0 to {classes}")


def _process_count(config: TrainingConfig, workers: int | None, device: torch.device) -> int:
    """Return the number of processes of a run, this one included."""
    gpus = torch.cuda.device_count() if device.type == "cuda" else 0
    if workers is None:
        workers = gpus if gpus and config.batch % gpus == 0 and config.branches == 1 else 1
    if workers < 1 or config.batch % workers:
        raise ValueError(
            f"a batch of {config.batch} images cannot be shared by {workers} processes"
        )
    if workers > 1 and config.branches > 1:
        raise ValueError(
            "a run has several branches, or several processes that share every batch, but not both"
        )
    if config.branches > 1 and device.type != "cpu":
        raise ValueError("branches train on a CPU only")
    if device.type != "cpu" and workers > max(gpus, 1):
        raise ValueError(f"{workers} processes need a GPU each, and this machine has {gpus}")
    return max(workers, config.branches)


def _tested(model: Transformer, images: np.ndarray) -> float:
    """Return the bits/dim of test images [n, N]."""
    if model.device.type == "cpu":
        return float(bits_per_dim(model, images).mean())
    # By the parallel view: the backend that paints would first compile kernels and record graphs of
    # its own.
    parts = torch.tensor(images, device=model.device).split(BATCH)
    return torch.cat([bits(model, part) for part in parts]).mean().item()


def _check_finite(trainer: Trainer, done: int, bits: float, norm: float) -> None:
    norms = [weight.norm() for weight in trainer.branches.model.parameters()]
    weights = torch.stack(norms).norm().item()
    for what, value in (
        ("loss", bits),
        ("norm of the gradients", norm),
        ("norm of the weights", weights),
    ):
        if not np.isfinite(value):
            last = f"the last checkpoint in {trainer.inputs.directory} is intact"
            raise FloatingPointError(f"the {what} is {value} after {done} updates; {last}")


def _save_checkpoint(
    trainer: Trainer,
    curve: Curve,
    state: dict[str, Any],
    done: int,
    seconds: float,
    room: float | None,
    with_samples: bool,
) -> None:
    """Write the model, the curve, the state and, `with_samples`, the sheet."""
    inputs = trainer.inputs
    model = trainer.branches.model
    save_model(model, inputs.directory)
    # The curve before the state: a resumed run drops the rows beyond its state, but cannot recover
    # lost ones.
    curve.save()
    about = {"model_config": inputs.model.to_dict(), "config": asdict(inputs.config)}
    save_state(inputs.directory, {**about, **state, "update": done, "seconds": seconds}, room)
    if with_samples:
        samples = paint(model, inputs.config.sample_images, seed=inputs.config.seed).images
        images = samples.reshape(-1, *inputs.model.image_shape)
        contact_sheet.save(images, inputs.directory / "samples.png")


def _follow(group: Group, inputs: Inputs, device: torch.device) -> None:
    """Compute this process's part of every update until the first process ends it."""
    device = group.device(device)
    trainer = Trainer(group, inputs, device, inputs.state(device))
    for number in count(trainer.first):
        trainer.update(number)
