"""The training loop: the loss of a batch, an update, now and then a checkpoint.

What a checkpoint leaves in the model's directory: the averaged weights as a model that can be served, the
run's own state, the loss curve, a sheet of samples.
"""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from errno import EACCES
from pathlib import Path

import numpy as np
import torch

from scanline.kernels import mixture
from scanline.model import contact_sheet
from scanline.model.config import ModelConfig
from scanline.model.evaluation.likelihood import LN2, score
from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.offline import paint
from scanline.model.training.average import Average
from scanline.model.training.batches import batch_at
from scanline.model.training.config import TrainingConfig
from scanline.model.training.curve import Curve, Row
from scanline.model.training.optimiser import clip_gradients, optimiser
from scanline.model.training.schedule import learning_rate
from scanline.model.training.state import load_state, save_state

ROW_EVERY = 20  # updates


def train(
    model_config: ModelConfig,
    config: TrainingConfig,
    images: np.ndarray,
    test_images: np.ndarray,
    directory: Path,
    *,
    resume: bool = False,
    device: torch.device | str = "cpu",
    report: Callable[[Row], None] = lambda row: None,
) -> Transformer:
    """Trains on images [n, N] uint8 and returns the averaged model, which is also in `directory`.

    `resume` goes on from the state there, on a CPU bit for bit as if it had never stopped; ResumeError where
    there is none or it is of another model or recipe. `report` gets a row of the curve every few updates.
    ValueError for images that are not of the model's size.
    """
    device = torch.device(device)
    for found in (images, test_images):
        if found.shape[1] != model_config.bytes:
            raise ValueError(f"the images have {found.shape[1]} bytes, the model's {model_config.bytes}")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(EACCES, "Permission denied", str(directory))  # now, not at the first checkpoint
    torch.manual_seed(config.seed)
    model = Transformer(model_config).to(device)
    average = Average(model, config.average)
    optimise = optimiser(model, config)
    first, seconds = 0, 0.0
    if resume:
        state = load_state(directory, model_config, config, device)
        model.load_state_dict(state["model"])
        average.model.load_state_dict(state["average"])
        optimise.load_state_dict(state["optimiser"])
        first, seconds = state["update"], state["seconds"]
    curve = Curve(directory, first)
    started = time.monotonic() - seconds
    loss_of = torch.compile(_loss) if config.compile else _loss
    recent: list[tuple[torch.Tensor, torch.Tensor]] = []

    for update in range(first, config.updates):
        for group in optimise.param_groups:
            group["lr"] = group["scale"] * learning_rate(config, update)
        batch = batch_at(images, update, config, model_config).to(device, non_blocking=True)
        loss = loss_of(model, batch, config.precision)
        optimise.zero_grad(set_to_none=True)
        loss.backward()
        norm = clip_gradients(model, config.clip)
        optimise.step()
        average.follow(model, update)
        recent.append((loss.detach(), norm))

        done = update + 1
        at_checkpoint = done % config.checkpoint_every == 0 or done == config.updates
        if at_checkpoint or done % ROW_EVERY == 0:
            bits, norms = (torch.stack(values).mean().item() for values in zip(*recent, strict=True))
            recent.clear()
            tested = _tested(average.model, test_images[: config.evaluate_images]) if at_checkpoint else None
            row = Row(done, bits, learning_rate(config, update), norms, time.monotonic() - started, tested)
            if not np.isfinite(bits):
                raise FloatingPointError(f"the loss is {bits} after {done} updates; the last checkpoint is whole")
            curve.add(row)
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
                "seconds": time.monotonic() - started,
            }
            curve.save()  # before the state: a resumed run drops the rows beyond it, but cannot make up lost ones
            save_state(directory, state)
            samples = paint(average.model, config.sample_images, seed=config.seed).images
            contact_sheet.save(samples.reshape(-1, *model_config.image_shape), directory / "samples.png")
    return average.model


def _tested(model: Transformer, images: np.ndarray) -> float:
    """Test bits per dimension, by the way that paints."""
    generator = Generator(model, 1)
    try:
        return score(model, images, bits_of=generator.bits).bits_per_dim
    finally:
        generator.close()


def _loss(model: Transformer, batch: torch.Tensor, precision: str) -> torch.Tensor:
    """Mean bits per dimension of batch [B, N] that the network predicts (all but a first byte it cannot)."""
    narrow: AbstractContextManager[object] = nullcontext()
    if precision == "bfloat16":
        narrow = torch.autocast(batch.device.type, torch.bfloat16)
    with narrow:
        parameters = model.parallel(batch)
    return -mixture.log_prob(parameters, batch[:, model.config.first :], model.config.scale).mean() / LN2
