"""Input of a step of one byte: the value of the previous byte and the position, as one vector.

A byte before the image is the start token, value 256.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scanline.model.base.config import ModelConfig

START = 256


class Embedding(nn.Module):
    """Maps values and position of a byte to predict to a vector [..., D], D being the model's
    width."""

    waves: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width = config.model_width
        if config.embedding_join == "concat":
            width //= 2
        values = START + 1 if config.start_token else START
        self.value = new_table(values, width)
        if config.position == "sincos":
            self.register_buffer("waves", waves(config.bytes, width), persistent=False)
        else:
            self.row = new_table(config.height, width)
            self.column = new_table(config.width, width)
            if config.channels > 1:
                self.channel = new_table(config.channels, width)

    def forward(self, images: Tensor, position: Tensor) -> Tensor:
        """Return [B, n, D] from images [B, N] uint8 and position [B, n] int64, the bytes to
        predict, or [1, n] where they are the same for all images. Bytes from `position` on are not
        read."""
        before = position - 1
        columns = before.clamp(min=0).expand(images.shape[0], -1)
        values = images.gather(1, columns).long()
        values = values.masked_fill(before < 0, START)
        value = F.embedding(values, self.value)
        place = self.place(position)
        if self.config.embedding_join == "sum":
            return value + place
        return torch.cat((value, place.expand_as(value)), dim=-1)

    def place(self, position: Tensor) -> Tensor:
        """Return the vectors [..., D or D/2] of positions [...], which are added to the values or
        concatenated."""
        config = self.config
        if config.position == "sincos":
            return self.waves[position - config.first]
        pixel = position // config.channels
        row = pixel // config.width
        column = pixel % config.width
        place = self.row[row] + self.column[column]
        if config.channels > 1:
            place = place + self.channel[position % config.channels]
        return place


def new_table(rows: int, width: int) -> nn.Parameter:
    """Return an embedding table of N(0, 0.02); on the meta device not drawn: `normal_` would
    import torch._dynamo."""
    table = torch.empty(rows, width)
    if not table.is_meta:
        table = table.normal_() * 0.02
    return nn.Parameter(table)


def waves(length: int, width: int) -> Tensor:
    """Return [length, width]: sine in even, cosine in odd dimensions, base 10000 (Vaswani et al.,
    2017)."""
    angle = torch.arange(length).unsqueeze(1) * frequencies(width)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :width]


def frequencies(width: int) -> Tensor:
    """Return the angular frequency of each pair of dimensions."""
    return torch.exp(-math.log(10000) / width * torch.arange(0, width, 2))
