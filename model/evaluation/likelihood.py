"""Likelihoods of given images: how many bits a model needs for each of their bytes."""

from math import log

import torch

from scanline.kernels import mixture
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer

LN2 = log(2)


@torch.inference_mode()
def bits(model: Transformer, images: torch.Tensor) -> torch.Tensor:
    """Return the bits [B, N] float64 of every byte of images [B, N] uint8, by the parallel view.

    A byte that the model rules out costs infinitely many. `Generator.score` returns the same from the backend that
    paints; this function is what it is held to.
    """
    config = model.config
    predicted = -mixture.log_prob(model.parallel(images), images[:, config.first :], config.scale).double() / LN2
    return with_first_byte(config, images, predicted)


def first_byte_bits(config: ModelConfig, values: torch.Tensor) -> torch.Tensor:
    """Return the bits [B] float64 of first bytes `values` [B] under the histogram of a model without start token."""
    histogram = torch.tensor(config.first_byte_histogram, dtype=torch.float64, device=values.device)
    return -histogram[values.long()].log2()


def with_first_byte(config: ModelConfig, images: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    """Return the bits [B, N] of all bytes, given those [B, N - first] that the network predicts."""
    if not config.first:
        return predicted
    return torch.cat((first_byte_bits(config, images[:, 0]).unsqueeze(1), predicted), dim=1)
