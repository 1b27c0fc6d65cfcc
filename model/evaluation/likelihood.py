"""Likelihoods of given images: how many bits a model needs for each of their bytes."""

from collections.abc import Callable
from contextlib import closing
from typing import Unpack

import numpy as np
import torch

from scanline.model.network.transformer import Transformer, with_first_byte
from scanline.model.sampling.base.generator import Generator
from scanline.model.tasks.offline import RunOptions

BATCH = 50  # images read at once


@torch.inference_mode()
def bits(
    model: Transformer, images: torch.Tensor, labels: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the bits [B, N] float64 of every byte of images [B, N] uint8 with labels [B] int64, by
    the parallel view.

    A byte that the model rules out costs infinitely many. `Generator.score` returns the same from
    the backend that paints; this function is what it is held to.
    """
    config = model.config
    parameters = model.parallel(images, labels=labels)
    predicted = model.bits(parameters, images, config.first, config.bytes)
    return with_first_byte(config, images, predicted)


def bits_per_dim(
    model: Transformer,
    images: np.ndarray,
    *,
    progress: Callable[[int], None] = lambda done: None,
    labels: np.ndarray | None = None,
    **options: Unpack[RunOptions],
) -> np.ndarray:
    """Return the bits per dimension [n] float64 of images [n, N] uint8, from the backend that also
    paints.

    `progress` gets the number of images done. labels: [n] int64, 0 for no class and k + 1 for class
    k; None: all 0.
    """
    scores = []
    with closing(Generator(model, 1, **options)) as generator:
        for start in range(0, len(images), BATCH):
            part = images[start : start + BATCH]
            of_part = () if labels is None else labels[start : start + BATCH].tolist()
            scores.append(generator.score(part, of_part).mean(axis=1))
            progress(start + len(part))
    return np.concatenate(scores)
