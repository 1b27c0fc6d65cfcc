"""Residual blocks, and what they share with the layers: linear layers with class vectors, and the
causal convolution of what a feed-forward network reads.

Blocks stand between the window and the layers. They see the window of this pixel, and of its
neighbours where these are convolved; pixels further away come from the states of the layers.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scanline.kernels.causal_conv import NEIGHBOURS
from scanline.model.base.config import ModelConfig

Activation = Callable[[Tensor], Tensor]
# (x, norm, weight, number of the convolution) to the causal convolution of norm(x): of a whole
# image, or of a step. The network makes one for each pass.
Conv = Callable[[Tensor, nn.Module, Tensor, int], Tensor]
# by their names in config.json
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}


class ClassLinear(nn.Linear):
    """A linear layer that adds a vector of the image's class, at first zero, where the model has
    class_biases."""

    def __init__(self, inner: int, outer: int, config: ModelConfig) -> None:
        super().__init__(inner, outer)
        self.class_bias = None
        if config.class_biases:
            labels = 1 + len(config.classes)  # row 0 is an image without a class
            self.class_bias = nn.Parameter(torch.zeros(labels, outer))

    @property
    def biases(self) -> Tensor | None:
        """The whole bias [1 + K, O] of each label, or None."""
        if self.class_bias is None:
            return None
        return self.bias + self.class_bias

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return [B, ..., O] for x [B, ..., I] of images with labels [B] int64; None where all
        are 0."""
        y = super().forward(x)
        if self.class_bias is None:
            return y
        if labels is None:
            return y + self.class_bias[0].to(y.dtype)
        bias = F.embedding(labels, self.class_bias).to(y.dtype)
        while bias.dim() < y.dim():
            bias = bias.unsqueeze(1)  # one for all pixels of an image
        return y + bias


class Block(nn.Module):
    """A feed-forward network with a residual: x + W2 activation(W1 norm(x)), its convolution being
    number `conv_number` of the network."""

    def __init__(self, config: ModelConfig, conv_number: int) -> None:
        super().__init__()
        self.conv_number = conv_number
        self.norm = nn.LayerNorm(config.model_width)
        self.expand = ClassLinear(config.model_width, config.block_width, config)
        self.contract = nn.Linear(config.block_width, config.model_width)
        self.activation: Activation = ACTIVATIONS[config.activation]
        self.taps = new_conv_weight(config)  # the name in model.safetensors, which digests cover

    def forward(self, x: Tensor, conv: Conv, labels: Tensor | None) -> Tensor:
        """Return [B, n, D] for x [B, n, D] of images with labels [B]."""
        normed = with_conv(x, self.norm, self.taps, conv, self.conv_number)
        inner = self.activation(self.expand(normed, labels))
        return x + self.contract(inner)


def new_conv_weight(config: ModelConfig) -> nn.Parameter | None:
    """Return the weight [NEIGHBOURS, D] of a causal convolution, at first zero: it changes
    nothing. None where the model has none."""
    if not config.causal_conv:
        return None
    return nn.Parameter(torch.zeros(NEIGHBOURS, config.model_width))


def with_conv(
    x: Tensor, norm: nn.Module, weight: Tensor | None, conv: Conv, conv_number: int
) -> Tensor:
    """Return norm(x) [..., D], convolved where the model does so."""
    if weight is None:
        return norm(x)
    return conv(x, norm, weight, conv_number)
