"""Residual blocks: feed-forward networks between the window and the layers. They see the window of this pixel alone;
pixels further away come from the states of the layers.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from scanline.model.config import ModelConfig

Activation = Callable[[torch.Tensor], torch.Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}  # by their names in config.json


class Block(nn.Module):
    """A feed-forward network with a residual: x + W2 activation(W1 norm(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.model_width)
        self.expand = nn.Linear(config.model_width, config.block_width)
        self.contract = nn.Linear(config.block_width, config.model_width)
        self.activation: Activation = ACTIVATIONS[config.activation]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [..., D] for x [..., D]."""
        return x + self.contract(self.activation(self.expand(self.norm(x))))
