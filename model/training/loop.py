"""The training loop: updates, a row of the loss curve every so many of them, and checkpoints.

A checkpoint in the model's directory is: the averaged weights as a model that can be served, the run's state for
--resume, the loss curve, a sheet of samples.
"""

import os
from collections.abc import Callable
from dataclasses import asdict
from errno import EACCES
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scanline.model import contact_sheet
from scanline.model.config import ModelConfig
from scanline.model.datasets.split import Images
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.batches import batch_at, labels_at
from scanline.model.training.data.positions import Drawn, Sampler
from scanline.model.training.optimise.branches import Branches
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group, processes
from scanline.model.training.optimise.update import Updater
from scanline.model.training.run.budget import Budget
from scanline.model.training.run.curve import Curve, Row
from scanline.model.training.run.state import load_state, save_state

Weights = dict[str, torch.Tensor]


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
    compiled: bool = True,
    workers: int = 1,
    report: Callable[[Row], None] = lambda row: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Transformer:
    """Train on images [n, N] uint8 and return the averaged model, which is also saved in `directory`.

    labels: of the images, [n] int64, where the model learns classes; the recipe's share of them is left out at random,
    anew for each update. start: weights to begin with, by default random ones. interrupted: asked after every update;
    the run ends where it is True, with a checkpoint that has neither a test figure nor a new sheet.
    resume: continue from the state there, on a CPU bit for bit as if the run had never stopped; ResumeError where
    there is none, or one of another model or recipe. report: gets a row of the loss curve every few updates.
    precision: of products, float32 or bfloat16; by default bfloat16 where the hardware has it. compiled: the loss by
    torch.compile, where that works. workers: processes that share every batch, on a CPU; these, and the branches of the
    recipe, are spawned, so that a script that calls this needs `if __name__ == "__main__"`.
    ValueError for images that do not have the model's size, labels of other images or classes, a batch that the
    workers cannot share, or workers beside branches; FloatingPointError where the loss, its gradients or the weights
    are not finite; WorkerError where a process ends.
    """
    device = torch.device(device)
    dtype = product_dtype(device, precision)
    for given in (images, test_images):
        if given.shape[1] != model_config.bytes:
            raise ValueError(f"the images have {given.shape[1]} bytes, the model's {model_config.bytes}")
    known = len(model_config.classes)
    if labels is not None and (len(labels) != len(images) or labels.min() < 0 or labels.max() > known):
        raise ValueError(f"each of the {len(images)} images needs a label from 0 to {known}")
    if workers < 1 or config.batch % workers:
        raise ValueError(f"a batch of {config.batch} images cannot be shared by {workers} processes")
    if workers > 1 and config.branches > 1:
        raise ValueError("a run has several branches, or several processes that share every batch, but not both")
    size = max(workers, config.branches)
    if size > 1 and device.type != "cpu":
        raise ValueError("several processes train on a CPU only")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(EACCES, "Permission denied", str(directory))  # now, not at the first checkpoint
    state = load_state(directory, model_config, config, device) if resume else {}
    job = (model_config, config, images, labels, directory, start, resume, dtype, compiled)
    with processes(size, _follow, *job) as group:
        branches = _branches(group, model_config, config, device, start, state, dtype, compiled)
        model, updater = branches.model, branches.updater
        first, seconds = state.get("update", 0), state.get("seconds", 0.0)
        curve = Curve(directory, first)
        budget = Budget(config, seconds)
        sampler = Sampler(images, config, model_config)
        recent: list[tuple[torch.Tensor, torch.Tensor]] = []  # loss and gradient norm of the updates since the last row

        done, ended, stopped = first, budget.ended(first), False
        while not ended and not stopped:
            rate = branches.rate(budget.rate(done))
            batch, batch_labels, drawn = _batch(images, labels, branches.batch_number(done), rate, sampler, device)
            recent.append(updater.update(batch, done, rate, batch_labels, drawn))

            done += 1
            branches.average(done)
            ended = budget.ended(done)
            stopped = not ended and interrupted()
            at_checkpoint = ended or stopped or budget.checkpoint_due(done)
            updater_state = branches.state_dict() if at_checkpoint else {}
            # The losses leave the device only for a row: reading each would wait for every update on a GPU.
            if budget.row_due(done) or at_checkpoint:
                bits, norms = (torch.stack(values).mean().item() for values in zip(*recent, strict=True))
                recent.clear()
                tested = None
                if at_checkpoint and not stopped:
                    tested = float(bits_per_dim(model, test_images[: config.evaluate_images]).mean())
                row = Row(done, bits, rate, norms, budget.seconds, tested)
                weights = torch.stack([parameter.norm() for parameter in model.parameters()]).norm().item()
                for what, value in (("loss", bits), ("norm of the gradients", norms), ("norm of the weights", weights)):
                    if not np.isfinite(value):
                        last = f"the last checkpoint in {directory} is unharmed"
                        raise FloatingPointError(f"the {what} is {value} after {done} updates; {last}")
                curve.rows.append(row)
                report(row)
            if at_checkpoint:
                save_model(model, directory)
                # The curve before the state: a resumed run drops the rows beyond its state, but cannot recover lost
                # ones.
                curve.save()
                about = {"model_config": model_config.to_dict(), "config": asdict(config)}
                save_state(directory, {**about, **updater_state, "update": done, "seconds": budget.seconds})
                if not stopped:
                    samples = paint(model, config.sample_images, seed=config.seed).images
                    contact_sheet.save(samples.reshape(-1, *model_config.image_shape), directory / "samples.png")
                budget.checkpoint_written(row.seconds)
    return model


def _branches(
    group: Group,
    model_config: ModelConfig,
    config: TrainingConfig,
    device: torch.device,
    start: Weights | None,
    state: dict[str, Any],
    dtype: torch.dtype,
    compiled: bool,
) -> Branches:
    """Return a run at its beginning or at a state: the same in all processes, but that each is a branch of its own
    where the recipe has several."""
    torch.manual_seed(config.seed)
    model = Transformer(model_config).to(device)
    if start is not None:
        model.load_state_dict(start)
    shared = group if config.branches == 1 else Group()
    branches = Branches(group, config, Updater(model, config, shared, dtype, compiled))
    if state:
        branches.load_state_dict(state)
    return branches


def _follow(
    group: Group,
    model_config: ModelConfig,
    config: TrainingConfig,
    images: Images,
    labels: np.ndarray | None,
    directory: Path,
    start: Weights | None,
    resume: bool,
    dtype: torch.dtype,
    compiled: bool,
) -> None:
    """Compute a worker's share of every update, or the updates of its branch, until the first process ends it."""
    device = torch.device("cpu")
    state = load_state(directory, model_config, config, device) if resume else {}
    branches = _branches(group, model_config, config, device, start, state, dtype, compiled)
    sampler = Sampler(images, config, model_config)
    for number in count(state.get("update", 0)):
        rate = branches.rate()
        batch, batch_labels, drawn = _batch(images, labels, branches.batch_number(number), rate, sampler, device)
        branches.updater.update(batch, number, rate, batch_labels, drawn)
        branches.average(number + 1)


def _batch(
    images: Images,
    labels: np.ndarray | None,
    number: int,
    rate: float,
    sampler: Sampler,
    device: torch.device,
) -> tuple[torch.Tensor, torch.Tensor | None, Drawn | None]:
    """Return the images [B, N] of a batch of this number and learning rate, their labels [B], None of images without,
    and the positions to compute, None for all."""
    batch = batch_at(images, number, sampler.config, sampler.model, rate)
    drawn = sampler.at(batch, number)
    of_images = None if labels is None else labels_at(labels, number, sampler.config).to(device)
    return batch.to(device), of_images, None if drawn is None else drawn.to(device)
