"""Likelihoods of given images: how many bits a model needs for each of their bytes."""

import torch

from scanline.model.network.transformer import Transformer, with_first_byte


@torch.inference_mode()
def bits(model: Transformer, images: torch.Tensor) -> torch.Tensor:
    """Return the bits [B, N] float64 of every byte of images [B, N] uint8, by the parallel view.

    A byte that the model rules out costs infinitely many. `Generator.score` returns the same from the backend that
    paints; this function is what it is held to.
    """
    config = model.config
    predicted = model.bits(model.parallel(images), images, config.first, config.bytes)
    return with_first_byte(config, images, predicted)
