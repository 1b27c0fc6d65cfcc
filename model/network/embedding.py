"""Input of a step of one byte: the value of the previous byte and the position, as one vector.

A byte before the image is the start token, value 256.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from scanline.model.base.config import ModelConfig

START = 256


class Embedding(nn.Module):
    """Maps values and position of a byte to predict to a vector
    [..., D], D being the model's width.
    """

    waves: torch.Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width = config.model_width if config.embedding_join == "sum" else config.model_width // 2
        self.value = drawn(START + (1 if config.start_token else 0), width)
        if config.position == "axial":
            self.row = drawn(config.height, width)
            self.column = drawn(config.width, width)
            if config.channels > 1:
                self.channel = drawn(config.channels, width)
        else:
            self.register_buffer("waves", waves(config.bytes, width), persistent=False)

    def forward(self, images: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return [B, n, D] from images [B, N] uint8 and position [B, n] int64, the
        bytes to predict, or [1, n] where they are the same for all images. Bytes
        from `position` on are not read."""
        before = position - 1
        values = images.gather(1, before.clamp(min=0).expand(images.shape[0], -1)).long()
        value = F.embedding(values.masked_fill(before < 0, START), self.value)
        place = self.place(position)
        if self.config.embedding_join == "sum":
            return value + place
        return torch.cat((value, place.expand_as(value)), dim=-1)

    def place(self, position: torch.Tensor) -> torch.Tensor:
        """Return the vectors [..., D or D/2] of positions [...], which are
        added to the values or concatenated.
        """
        if self.config.position == "sincos":
            return self.waves[position - self.config.first]
        pixel = position // self.config.channels
        place = self.row[pixel // self.config.width] + self.column[pixel % self.config.width]
        return (
            place
            if self.config.channels == 1
            else place + self.channel[position % self.config.channels]
        )


def drawn(rows: int, width: int) -> nn.Parameter:
    """Return an embedding table of N(0, 0.02); on the meta device not drawn:
    `normal_` would import torch._dynamo.
    """
    table = torch.empty(rows, width)
    return nn.Parameter(table if table.is_meta else table.normal_() * 0.02)


def waves(length: int, width: int) -> torch.Tensor:
    """Return [length, width]: sine in even, cosine in odd dimensions,
    base 10000 (Vaswani et al., 2017).
    """
    angle = torch.arange(length).unsqueeze(1) * frequencies(width)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :width]


def frequencies(width: int) -> torch.Tensor:
    """Return the angular frequency of each pair of dimensions."""
    return torch.exp(-math.log(10000) / width * torch.arange(0, width, 2))
