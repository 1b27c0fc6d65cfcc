"""Likelihoods: how many bits the model needs for every byte of given images, through the parallel view."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log, sqrt

import numpy as np
import torch

from scanline.kernels import mixture
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer

LN2 = log(2)


@dataclass(frozen=True)
class Score:
    """Mean bits per dimension over a set of images, with the standard error of that mean."""

    bits_per_dim: float
    standard_error: float | None  # None of a single image
    images: int


def first_byte_bits(config: ModelConfig, values: torch.Tensor) -> torch.Tensor:
    """Bits [B] float64 of first bytes `values` [B] under the histogram of a model without start token."""
    histogram = torch.tensor(config.first_byte_histogram, dtype=torch.float64, device=values.device)
    return -histogram[values.long()].log2()


@torch.inference_mode()
def bits(model: Transformer, images: torch.Tensor) -> torch.Tensor:
    """Bits [B, N] float64 of every byte of images [B, N] uint8; infinite where the model rules a byte out."""
    config = model.config
    painted = images[:, config.first :]
    result = -mixture.log_prob(model.parallel(images), painted, config.scale).double() / LN2
    return with_first_byte(config, images, result)


def with_first_byte(config: ModelConfig, images: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Bits [B, N] of all bytes from those that the network predicts."""
    if not config.first:
        return found
    return torch.cat((first_byte_bits(config, images[:, 0]).unsqueeze(1), found), dim=1)


def bits_of_images(
    model: Transformer,
    images: np.ndarray,
    batch: int = 50,
    progress: Callable[[int], None] = lambda done: None,
    bits_of: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> np.ndarray:
    """Bits per dimension [n] float64 of images [n, N] uint8, `batch` at a time; `progress` gets images done.

    `bits_of` gives the bits [B, N] of images [B, N]; the parallel view where it is not given.
    """
    bits_of = bits_of or partial(bits, model)
    each: list[torch.Tensor] = []
    for start in range(0, len(images), batch):
        part = torch.tensor(images[start : start + batch]).to(model.device)
        each.append(bits_of(part).mean(dim=1).cpu())
        progress(start + len(part))
    found: np.ndarray = torch.cat(each).numpy()
    return found


def mean_of(bits_per_image: np.ndarray) -> Score:
    """The test measure of the paper, from each image's [n]."""
    n = len(bits_per_image)
    error = float(bits_per_image.std(ddof=1)) / sqrt(n) if n > 1 else None
    return Score(float(bits_per_image.mean()), error, n)


def score(
    model: Transformer,
    images: np.ndarray,
    batch: int = 50,
    progress: Callable[[int], None] = lambda done: None,
    bits_of: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Score:
    """The test measure of images, the arguments being those of `bits_of_images`."""
    return mean_of(bits_of_images(model, images, batch, progress, bits_of))
