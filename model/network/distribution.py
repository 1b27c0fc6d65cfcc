"""The distribution of a step's bytes that a network predicts, from `kernels`."""

from typing import Protocol

import torch

from scanline.kernels.categorical import Categorical
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.model.config import ModelConfig


class Distribution(Protocol):
    """A distribution over the n bytes of a step, given `width` parameters."""

    @property
    def width(self) -> int: ...

    def log_prob(self, parameters: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return natural log-probabilities [..., n] of bytes [..., n], each given the earlier ones of its step."""

    def sample(
        self,
        parameters: torch.Tensor,
        uniforms: torch.Tensor,
        temperature: torch.Tensor,
        values: torch.Tensor,
        known: torch.Tensor,
    ) -> torch.Tensor:
        """Return bytes [..., n], those of `values` where `known` [..., n]; from uniforms [..., n, 2]."""

    def sample_guided(
        self,
        with_class: torch.Tensor,
        without: torch.Tensor,
        guidance: torch.Tensor,
        uniforms: torch.Tensor,
        temperature: torch.Tensor,
        values: torch.Tensor,
        known: torch.Tensor,
    ) -> torch.Tensor:
        """Return bytes as `sample` does, of images guided by `guidance` [...], from parameters with their class and
        without."""


def distribution(config: ModelConfig) -> Distribution:
    """Return the distribution that a model of this configuration predicts."""
    if config.predicts == "categorical":
        return Categorical()
    return PixelLogistics(config.components, config.step_bytes, config.scale)
