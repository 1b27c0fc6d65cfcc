"""Residual blocks: feed-forward networks between the window and the layers. They see the window of this pixel, and of
its neighbours where these are mixed; pixels further away come from the states of the layers.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from scanline.kernels.neighbours import NEIGHBOURS
from scanline.model.config import ModelConfig

Activation = Callable[[torch.Tensor], torch.Tensor]
# (x, taps, number of the mixing) to x with neighbours mixed in: of a whole image, or of a step
Mixing = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}  # by their names in config.json


class Block(nn.Module):
    """A feed-forward network with a residual: x + W2 activation(W1 norm(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.model_width)
        self.expand = nn.Linear(config.model_width, config.block_width)
        self.contract = nn.Linear(config.block_width, config.model_width)
        self.activation: Activation = ACTIVATIONS[config.activation]
        self.taps = new_taps(config)

    def forward(self, x: torch.Tensor, mixing: Mixing, number: int) -> torch.Tensor:
        """Return [..., D] for x [..., D]; this is block `number`."""
        seen = with_neighbours(self.norm(x), self.taps, mixing, number)
        return x + self.contract(self.activation(self.expand(seen)))


def new_taps(config: ModelConfig) -> nn.Parameter | None:
    """Return the weights [NEIGHBOURS, D] of a mixing, at first zero: nothing is mixed."""
    return nn.Parameter(torch.zeros(NEIGHBOURS, config.model_width)) if config.neighbours else None


def with_neighbours(x: torch.Tensor, taps: torch.Tensor | None, mixing: Mixing, number: int) -> torch.Tensor:
    """Return x [..., D], with neighbours mixed in where the model does so."""
    return x if taps is None else mixing(x, taps, number)
