"""The causal convolution with painted neighbours (`reference.py` is the literal loop): of many
pixels of each image in turn, and of one pixel of each image at its own place. Both read what is
kept of earlier pixels, number p in row p mod R of `conv_state`, and keep what later ones need. In
training on a GPU, whole images and the norm before them have kernels with gradients
(`training_triton.py`)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from scanline.kernels import BEYOND, gpu
from scanline.kernels.causal_conv.reference import NEIGHBOURS, OFFSETS

__all__ = ["NEIGHBOURS", "OFFSETS", "causal_conv", "causal_conv_step", "normed_causal_conv"]


def causal_conv(
    x: Tensor,  # [B, n, D]: of the pixels from `first` on
    conv_weight: Tensor,  # [NEIGHBOURS, D]
    first: int,
    width: int,  # of the image
    # [B, width + BEYOND, D], changed in place; None: nothing is kept
    conv_state: Tensor | None = None,
) -> Tensor:
    """Return y [B, n, D] as `reference.causal_conv`. Without `conv_state`, `first` is 0."""
    if conv_state is None and x.shape[1] % width == 0:
        return _causal_conv_of_rows(x, conv_weight, width)
    batch, count, depth = x.shape
    reach = width + BEYOND - 1  # pixels back to the furthest neighbour
    pixel = torch.arange(first, first + count, device=x.device)

    # The pixels before x, and x itself: [B, reach + n, D].
    if conv_state is None:
        before = x.new_zeros(batch, reach, depth)
    else:
        earlier = pixel[0] - reach + torch.arange(reach, device=x.device)
        before = conv_state[:, earlier % conv_state.shape[1]]
    pixels = torch.cat((before, x), dim=1)

    y = x
    for weight, (up, left) in zip(conv_weight, OFFSETS, strict=True):
        if abs(left) >= width:
            continue  # outside every image, and of a narrow one not before the pixel
        begin = reach - up * width - left
        inside = _inside(pixel, up, left, width).unsqueeze(-1)
        y = y + weight * torch.where(inside, pixels[:, begin : begin + count], 0)

    # Keep what later pixels need.
    if conv_state is not None:
        size = conv_state.shape[1]
        last = pixel[-size:]
        conv_state[:, last % size] = x[:, -len(last) :]
    return y


def _causal_conv_of_rows(x: Tensor, conv_weight: Tensor, width: int) -> Tensor:
    """Return the same of the first rows of images: with a border of zeros nothing is compared,
    in a third of the time on a CPU."""
    rows = x.unflatten(1, (-1, width))
    bordered = F.pad(rows, (0, 0, 2, 2, 1, 0))
    y = rows
    for weight, (up, left) in zip(conv_weight, OFFSETS, strict=True):
        first_row = 1 - up
        first_column = 2 - left
        near = bordered[
            :, first_row : first_row + rows.shape[1], first_column : first_column + width
        ]
        y = y + weight * near
    return y.flatten(1, 2)


def normed_causal_conv(
    x: Tensor,  # [B, N, D]: of all pixels of images
    weight: Tensor,  # [D], of the norm, as `bias`
    bias: Tensor,
    conv_weight: Tensor,  # [NEIGHBOURS, D]
    width: int,  # of the images
) -> Tensor:
    """Return `causal_conv` [B, N, D] of the normed x; by one kernel in training on a GPU, then of
    autocast's type."""
    if not _is_by_triton(x):
        normed = F.layer_norm(x, weight.shape, weight, bias)
        return causal_conv(normed, conv_weight, 0, width)
    from scanline.kernels.causal_conv.training_triton import normed_causal_conv as kernel

    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    return kernel(x, weight, bias, conv_weight, width, dtype)


def _is_by_triton(x: Tensor) -> bool:
    return (
        x.device.type == gpu.TRAINING
        and x.requires_grad
        and x.dtype == torch.float32
        and gpu.trains("causal_conv", x.shape[-1])
    )


def causal_conv_step(
    x: Tensor,  # [B, D]
    conv_weight: Tensor,  # [NEIGHBOURS, D]
    pixel: Tensor,  # [B] int64
    width: int,  # of the image
    conv_state: Tensor,  # [B, width + BEYOND, D], changed in place
) -> Tensor:
    """Return y [B, D] as `reference.causal_conv`, of one pixel of each image."""
    rows = torch.arange(len(x), device=x.device)
    size = conv_state.shape[1]
    y = x
    for weight, (up, left) in zip(conv_weight, OFFSETS, strict=True):
        neighbour = pixel - up * width - left
        near = conv_state[rows, neighbour % size]
        inside = _inside(pixel, up, left, width).unsqueeze(-1)
        y = y + weight * torch.where(inside, near, 0)
    conv_state[rows, pixel % size] = x
    return y


def _inside(pixel: Tensor, up: int, left: int, width: int) -> Tensor:
    """Return whether the neighbour of each pixel at an offset is in the image."""
    column = pixel % width - left
    return (pixel >= up * width) & (column >= 0) & (column < width)
