"""Residual blocks: feed-forward networks between the window and the layers. They see the window of this pixel, and of
its neighbours where these are convolved; pixels further away come from the states of the layers.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from scanline.kernels.causal_conv import NEIGHBOURS
from scanline.model.config import ModelConfig

Activation = Callable[[torch.Tensor], torch.Tensor]
# (x, norm, weight, number of the convolution) to the causal convolution of norm(x): of a whole image, or of a step
Conv = Callable[[torch.Tensor, nn.Module, torch.Tensor, int], torch.Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}  # by their names in config.json


class Block(nn.Module):
    """A feed-forward network with a residual: x + W2 activation(W1 norm(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.model_width)
        self.expand = nn.Linear(config.model_width, config.block_width)
        self.contract = nn.Linear(config.block_width, config.model_width)
        self.activation: Activation = ACTIVATIONS[config.activation]
        self.taps = new_conv_weight(config)  # the name in model.safetensors, which digests cover

    def forward(self, x: torch.Tensor, conv: Conv, number: int) -> torch.Tensor:
        """Return [..., D] for x [..., D]; this is block `number`."""
        seen = with_conv(x, self.norm, self.taps, conv, number)
        return x + self.contract(self.activation(self.expand(seen)))


def new_conv_weight(config: ModelConfig) -> nn.Parameter | None:
    """Return the weight [NEIGHBOURS, D] of a causal convolution, at first zero: it changes nothing."""
    return nn.Parameter(torch.zeros(NEIGHBOURS, config.model_width)) if config.causal_conv else None


def with_conv(x: torch.Tensor, norm: nn.Module, weight: torch.Tensor | None, conv: Conv, number: int) -> torch.Tensor:
    """Return norm(x) [..., D], convolved where the model does so."""
    return norm(x) if weight is None else conv(x, norm, weight, number)
