"""Residual blocks: feed-forward networks between the window and the layers. They see the
window of this pixel, and of its neighbours where these are convolved; pixels further away
come from the states of the layers.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from scanline.kernels.causal_conv import NEIGHBOURS
from scanline.model.base.config import ModelConfig

Activation = Callable[[torch.Tensor], torch.Tensor]
# (x, norm, weight, number of the convolution) to the causal convolution of
# norm(x): of a whole image, or of a step
Conv = Callable[[torch.Tensor, nn.Module, torch.Tensor, int], torch.Tensor]
# by their names in config.json
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}


class ClassLinear(nn.Linear):
    """A linear layer that adds a vector of the image's class, at first zero,
    where the model has class_biases.
    """

    def __init__(self, inner: int, outer: int, config: ModelConfig) -> None:
        super().__init__(inner, outer)
        labels = 1 + len(config.classes)  # row 0 is an image without a class
        self.class_bias = nn.Parameter(torch.zeros(labels, outer)) if config.class_biases else None

    @property
    def biases(self) -> torch.Tensor | None:
        """The whole bias [1 + K, O] of each label, or None."""
        return None if self.class_bias is None else self.bias + self.class_bias

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return [B, ..., O] for x [B, ..., I] of images with labels
        [B] int64; None where all are 0.
        """
        y = super().forward(x)
        if self.class_bias is None:
            return y
        if labels is None:
            return y + self.class_bias[0].to(y.dtype)
        return y + F.embedding(labels, self.class_bias).to(y.dtype).unflatten(
            0, (-1, *(1,) * (x.dim() - 2))
        )


class Block(nn.Module):
    """A feed-forward network with a residual: x + W2 activation(W1 norm(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.model_width)
        self.expand = ClassLinear(config.model_width, config.block_width, config)
        self.contract = nn.Linear(config.block_width, config.model_width)
        self.activation: Activation = ACTIVATIONS[config.activation]
        self.taps = new_conv_weight(config)  # the name in model.safetensors, which digests cover

    def forward(
        self, x: torch.Tensor, conv: Conv, number: int, labels: torch.Tensor | None
    ) -> torch.Tensor:
        """Return [B, n, D] for x [B, n, D] of images with labels [B]; this is block `number`."""
        seen = with_conv(x, self.norm, self.taps, conv, number)
        return x + self.contract(self.activation(self.expand(seen, labels)))


def new_conv_weight(config: ModelConfig) -> nn.Parameter | None:
    """Return the weight [NEIGHBOURS, D] of a causal convolution,
    at first zero: it changes nothing.
    """
    return nn.Parameter(torch.zeros(NEIGHBOURS, config.model_width)) if config.causal_conv else None


def with_conv(
    x: torch.Tensor, norm: nn.Module, weight: torch.Tensor | None, conv: Conv, number: int
) -> torch.Tensor:
    """Return norm(x) [..., D], convolved where the model does so."""
    return norm(x) if weight is None else conv(x, norm, weight, number)
