"""Input of a step of a whole pixel: the window of painted pixels and the position, as one vector."""

import torch
import torch.nn.functional as F
from torch import nn

from scanline.kernels.window import Window
from scanline.model.base.config import ModelConfig
from scanline.model.network.embedding import new_table


def window(config: ModelConfig) -> Window:
    """Return the window that a model of this configuration reads."""
    return Window(
        height=config.height,
        width=config.width,
        channels=config.channels,
        rows=config.window_rows,
        columns=config.window_columns,
        waves=config.waves,
        wave_rows=config.wave_rows,
        wave_columns=config.wave_columns,
        outside=config.outside,
        centred=config.window_centred,
    )


class WindowInput(nn.Module):
    """Maps the window's inputs of a pixel to a vector [..., D]: a linear layer, GELU, and its row
    and column added."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.linear = nn.Linear(window(config).inputs, config.model_width)
        self.row = new_table(config.height, config.model_width)
        self.column = new_table(config.width, config.model_width)

    def forward(self, inputs: torch.Tensor, pixel: torch.Tensor) -> torch.Tensor:
        """Return [B, n, D] from the window's inputs [B, n, .] of pixels [B or 1, n]."""
        return F.gelu(self.linear(inputs)) + self.place(pixel)

    def place(self, pixel: torch.Tensor) -> torch.Tensor:
        """Return the vectors [..., D] of pixels [...]."""
        row = pixel // self.config.width
        column = pixel % self.config.width
        return self.row[row] + self.column[column]
