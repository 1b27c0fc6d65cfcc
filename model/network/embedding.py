"""The input of a step: the values of already painted bytes and the position, as one vector.

To predict byte p the network reads the bytes at p - 1 and p - neighbours, each through its own table, and the
position p. A byte before the image is the start token, value 256.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from scanline.model.config import ModelConfig

START = 256


class Embedding(nn.Module):
    """Maps values and position of a byte to predict to a vector [..., D], D being the model's width."""

    offsets: torch.Tensor
    waves: torch.Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        join = config.embedding_join
        width = config.model_width if join == "sum" else config.model_width // 2
        self.rows = START + (1 if config.start_token else 0)
        self.value = _drawn(len(config.offsets) * self.rows, width)
        self.register_buffer("offsets", torch.tensor(config.offsets), persistent=False)
        if config.position == "axial":
            self.row = _drawn(config.height, width)
            self.column = _drawn(config.width, width)
            if config.channels > 1:
                self.channel = _drawn(config.channels, width)
        else:
            self.register_buffer("waves", waves(config.bytes, width), persistent=False)

    def forward(self, images: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Returns [B, n, D] from images [B, N] uint8 and position [B, n] int64, the bytes to predict, or [1, n] where
        they are the same for all images. Bytes from `position` on are not read."""
        batch, tables = images.shape[0], len(self.config.offsets)
        back = position.unsqueeze(-1) - self.offsets  # [B or 1, n, tables]
        read = back.clamp(min=0).flatten(1).expand(batch, -1)
        values = images.gather(1, read).view(batch, -1, tables).long().masked_fill(back < 0, START)
        values = values + torch.arange(tables, device=back.device) * self.rows
        value = F.embedding_bag(values.flatten(0, 1), self.value, mode="sum").view(batch, position.shape[1], -1)
        place = self.place(position)
        return (
            value + place if self.config.embedding_join == "sum" else torch.cat((value, place.expand_as(value)), dim=-1)
        )

    def place(self, position: torch.Tensor) -> torch.Tensor:
        """Returns the vectors [..., D or D/2] of positions [...], which are added to the values or concatenated."""
        if self.config.position == "sincos":
            return self.waves[position - self.config.first]
        pixel = position // self.config.channels
        place = self.row[pixel // self.config.width] + self.column[pixel % self.config.width]
        return place if self.config.channels == 1 else place + self.channel[position % self.config.channels]


def _drawn(rows: int, width: int) -> nn.Parameter:
    """Returns an embedding table drawn from N(0, 0.02). On the meta device nothing is drawn: there, `normal_` would
    import torch._dynamo."""
    table = torch.empty(rows, width)
    return nn.Parameter(table if table.is_meta else table.normal_() * 0.02)


def waves(length: int, width: int) -> torch.Tensor:
    """Returns [length, width]: sine in even, cosine in odd dimensions, base 10000 (Vaswani et al., 2017)."""
    angle = torch.arange(length).unsqueeze(1) * frequencies(width)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :width]


def frequencies(width: int) -> torch.Tensor:
    """Returns the angular frequency of each pair of dimensions."""
    return torch.exp(-math.log(10000) / width * torch.arange(0, width, 2))
