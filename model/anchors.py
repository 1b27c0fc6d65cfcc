"""Anchors: means of the mixture told as offsets from bytes that are painted already, mixed as the network sees fit.

For colour this is most of the way to a prediction (a channel is close to that of the pixel beside it); the state and
the cost of a step stay as they are. Four candidates of the same channel: left, above, left + above - above-left
clipped to the range, and zero, which is the middle of the range.
"""

import torch

from model.config import ModelConfig

CANDIDATES = 4


def candidates(images: torch.Tensor, position: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Values in [-1, 1] that anchor the bytes `position` [B or 1, n] of images [B, N] uint8: [B, n, 4].

    Only bytes before a position are read; one beyond the image's border counts as zero.
    """
    row_bytes = config.width * config.channels
    column = position // config.channels % config.width
    first_column, first_row = column == 0, position < row_bytes
    left = _value(images, position - config.channels, first_column)
    above = _value(images, position - row_bytes, first_row)
    corner = _value(images, position - row_bytes - config.channels, first_column | first_row)
    slope = (left + above - corner).clamp(-1, 1)
    return torch.stack((left, above, slope, torch.zeros_like(left)), dim=-1)


def anchored(raw: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """What the head says [B, n, 3K + 4] and candidates [B, n, 4] -> parameters [B, n, 3K] with anchored means."""
    parameters, choice = raw[..., :-CANDIDATES], raw[..., -CANDIDATES:]
    anchor = (choice.softmax(dim=-1) * values).sum(dim=-1, keepdim=True)
    logits, means, scales = parameters.chunk(3, dim=-1)
    return torch.cat((logits, means + anchor, scales), dim=-1)


def _value(images: torch.Tensor, place: torch.Tensor, outside: torch.Tensor) -> torch.Tensor:
    """The bytes at `place` as the mixture sees them, zero where they are outside."""
    bytes_ = images.gather(1, place.clamp(min=0).expand(images.shape[0], -1))
    return (bytes_.float() / 127.5 - 1).masked_fill(outside, 0.0)
