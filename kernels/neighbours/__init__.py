"""Mixing with painted neighbours (`reference.py` is the literal loop): of many pixels of each image in turn, and of one
pixel of each image at its own place. Both read what is kept of earlier pixels, number p in row p mod R of `recent`, and
keep what later ones need.
"""

import torch

from scanline.kernels import BEYOND
from scanline.kernels.neighbours.reference import NEIGHBOURS, OFFSETS

__all__ = ["NEIGHBOURS", "OFFSETS", "mix", "mix_step"]


def mix(
    x: torch.Tensor,  # [B, n, D]: of the pixels from `first` on
    taps: torch.Tensor,  # [NEIGHBOURS, D]
    first: int,
    width: int,  # of the image
    recent: torch.Tensor | None = None,  # [B, width + BEYOND, D], changed in place; None: nothing is kept
) -> torch.Tensor:
    """Return y [B, n, D] as `reference.mixed`. Without `recent`, `first` is 0."""
    count, reach = x.shape[1], width + BEYOND - 1  # pixels back to the furthest neighbour
    pixel = torch.arange(first, first + count, device=x.device)
    if recent is None:
        before = x.new_zeros(len(x), reach, x.shape[2])
    else:
        before = recent[:, (pixel[0] - reach + torch.arange(reach, device=x.device)) % len(recent[0])]
    every, y = torch.cat((before, x), dim=1), x
    for tap, (up, left) in zip(taps, OFFSETS, strict=True):
        if abs(left) >= width:
            continue  # outside every image, and of a narrow one not before the pixel
        begin = reach - up * width - left
        inside = _inside(pixel, up, left, width).unsqueeze(-1)
        y = y + tap * torch.where(inside, every[:, begin : begin + count], 0)
    if recent is not None:
        last = pixel[-len(recent[0]) :]
        recent[:, last % len(recent[0])] = x[:, -len(last) :]
    return y


def mix_step(
    x: torch.Tensor,  # [B, D]
    taps: torch.Tensor,  # [NEIGHBOURS, D]
    pixel: torch.Tensor,  # [B] int64
    width: int,  # of the image
    recent: torch.Tensor,  # [B, width + BEYOND, D], changed in place
) -> torch.Tensor:
    """Return y [B, D] as `reference.mixed`, of one pixel of each image."""
    rows, size, y = torch.arange(len(x), device=x.device), recent.shape[1], x
    for tap, (up, left) in zip(taps, OFFSETS, strict=True):
        near = recent[rows, (pixel - up * width - left) % size]
        y = y + tap * torch.where(_inside(pixel, up, left, width).unsqueeze(-1), near, 0)
    recent[rows, pixel % size] = x
    return y


def _inside(pixel: torch.Tensor, up: int, left: int, width: int) -> torch.Tensor:
    """Return whether the neighbour of each pixel at an offset is in the image."""
    column = pixel % width - left
    return (pixel >= up * width) & (column >= 0) & (column < width)
