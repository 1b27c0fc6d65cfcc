"""The training loop: the loss of a batch, an update, and a checkpoint every so many updates.

A checkpoint in the model's directory is: the averaged weights as a model that can be served, the run's state for
--resume, the loss curve, a sheet of samples.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from errno import EACCES
from pathlib import Path

import numpy as np
import torch

from scanline.kernels.logistics.reference import LN2
from scanline.model import contact_sheet
from scanline.model.config import ModelConfig
from scanline.model.datasets.split import Images
from scanline.model.evaluation.evaluate import bits_per_dim
from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from scanline.model.training.budget import Budget
from scanline.model.training.config import TrainingConfig
from scanline.model.training.curve import Curve, Row
from scanline.model.training.optimiser import MovingAverage, clip_gradients, optimiser
from scanline.model.training.state import load_state, save_state


def train(
    model_config: ModelConfig,
    config: TrainingConfig,
    images: Images,
    test_images: Images,
    directory: Path,
    *,
    start: dict[str, torch.Tensor] | None = None,
    resume: bool = False,
    device: torch.device | str = "cpu",
    report: Callable[[Row], None] = lambda row: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Transformer:
    """Train on images [n, N] uint8 and return the averaged model, which is also saved in `directory`.

    start: weights to begin with, by default random ones. interrupted: asked after every update; the run ends where it
    is True, with a checkpoint that has neither a test figure nor a new sheet.
    resume: continue from the state there, on a CPU bit for bit as if the run had never stopped; ResumeError where
    there is none, or one of another model or recipe. report: gets a row of the loss curve every few updates.
    ValueError for images that do not have the model's size; FloatingPointError where the loss is not finite.
    """
    device = torch.device(device)
    for given in (images, test_images):
        if given.shape[1] != model_config.bytes:
            raise ValueError(f"the images have {given.shape[1]} bytes, the model's {model_config.bytes}")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(EACCES, "Permission denied", str(directory))  # now, not at the first checkpoint
    torch.manual_seed(config.seed)
    model = Transformer(model_config).to(device)
    if start is not None:
        model.load_state_dict(start)
    average = MovingAverage(model, config.average)
    optimise = optimiser(model, config)
    first, seconds = 0, 0.0
    if resume:
        state = load_state(directory, model_config, config, device)
        model.load_state_dict(state["model"])
        average.model.load_state_dict(state["average"])
        optimise.load_state_dict(state["optimiser"])
        first, seconds = state["update"], state["seconds"]
    curve = Curve(directory, first)
    budget = Budget(config, seconds)
    loss_of = torch.compile(_loss) if config.compile else _loss
    recent: list[tuple[torch.Tensor, torch.Tensor]] = []  # loss and gradient norm of the updates since the last row

    update, ended, stopped = first, budget.ended(first), False
    while not ended and not stopped:
        rate = budget.rate(update)
        for group in optimise.param_groups:
            group["lr"] = group["scale"] * rate
        batch = batch_at(images, update, config, model_config).to(device, non_blocking=True)
        loss = loss_of(model, batch, config.precision)
        optimise.zero_grad(set_to_none=True)
        loss.backward()
        norm = clip_gradients(model, config.clip)
        optimise.step()
        average.move(model, update)
        recent.append((loss.detach(), norm))

        update = done = update + 1
        ended = budget.ended(done)
        stopped = not ended and interrupted()
        at_checkpoint = ended or stopped or budget.checkpoint_due(done)
        # The losses leave the device only for a row: reading each would wait for every update on a GPU.
        if budget.row_due(done) or at_checkpoint:
            bits, norms = (torch.stack(values).mean().item() for values in zip(*recent, strict=True))
            recent.clear()
            tested = None
            if at_checkpoint and not stopped:
                tested = float(bits_per_dim(average.model, test_images[: config.evaluate_images]).mean())
            row = Row(done, bits, rate, norms, budget.seconds, tested)
            if not np.isfinite(bits):
                raise FloatingPointError(
                    f"the loss is {bits} after {done} updates; the last checkpoint in {directory} is unharmed"
                )
            curve.rows.append(row)
            report(row)
        if at_checkpoint:
            save_model(average.model, directory)
            state = {
                "model_config": model_config.to_dict(),
                "config": asdict(config),
                "model": model.state_dict(),
                "average": average.model.state_dict(),
                "optimiser": optimise.state_dict(),
                "update": done,
                "seconds": budget.seconds,
            }
            # The curve before the state: a resumed run drops the rows beyond its state, but cannot recover lost ones.
            curve.save()
            save_state(directory, state)
            if not stopped:
                samples = paint(average.model, config.sample_images, seed=config.seed).images
                contact_sheet.save(samples.reshape(-1, *model_config.image_shape), directory / "samples.png")
            budget.checkpoint_written(row.seconds)
    return average.model


def batch_at(images: Images, update: int, config: TrainingConfig, model: ModelConfig) -> torch.Tensor:
    """Return the images [batch, N] uint8 of an update: a pure function of (seed, update), as resuming needs.

    An epoch is a permutation of the images; batches go through one epoch after the other.
    """
    ranks = np.arange(update * config.batch, (update + 1) * config.batch)
    epochs, places = ranks // len(images), ranks % len(images)
    chosen = np.empty(config.batch, np.int64)
    for epoch in np.unique(epochs):
        permutation = np.random.default_rng([config.seed, epoch]).permutation(len(images))
        chosen[epochs == epoch] = permutation[places[epochs == epoch]]
    batch = images[chosen]
    if config.flip:
        mirrored = np.random.default_rng([config.seed, 1, update]).random(config.batch) < 0.5
        pixels = batch.reshape(-1, model.height, model.width, model.channels)
        pixels[mirrored] = pixels[mirrored, :, ::-1]
    return torch.from_numpy(batch)


def _loss(model: Transformer, batch: torch.Tensor, precision: str) -> torch.Tensor:
    """Return the mean bits of the bytes of batch [B, N] that the network predicts: all, or all but the first."""
    autocast: AbstractContextManager[object] = nullcontext()
    if precision == "bfloat16":
        autocast = torch.autocast(batch.device.type, torch.bfloat16)
    with autocast:
        parameters = model.parallel(batch)
    values = batch[:, model.config.first :].unflatten(1, (-1, model.config.step_bytes))
    return -model.distribution.log_prob(parameters, values).mean() / LN2
