"""Search for the training images nearest to given ones, by L2 in pixel space: has the model
memorised images?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

BLOCK = 4096  # images of the pool at once


@dataclass(frozen=True)
class Nearest:
    """The k nearest of each of n images in a pool, nearest first."""

    indices: np.ndarray  # [n, k] int64, in the pool
    distances: np.ndarray  # [n, k] float64: root of the mean square difference of a byte, 0 to 255


@torch.inference_mode()
def nearest(
    images: np.ndarray,
    pool: np.ndarray,
    k: int,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda seen: None,
) -> Nearest:
    """Return the k nearest in pool [m, N] uint8 of each image [n, N] uint8; `progress` gets the
    pool images searched.

    The squares |a|^2 + |b|^2 - 2 ab are sums of whole numbers below 2^53, so float64 is exact: a
    copy is at distance 0.
    """
    count, size = images.shape
    queries = torch.tensor(images, device=device).double()
    squares_of_queries = queries.square().sum(dim=1, keepdim=True)
    best = torch.empty(count, 0, dtype=torch.float64, device=device)
    indices = torch.empty(count, 0, dtype=torch.int64, device=device)
    for start in range(0, len(pool), BLOCK):
        stop = min(start + BLOCK, len(pool))
        block = torch.tensor(pool[start:stop], device=device).double()
        squares = squares_of_queries + block.square().sum(dim=1)
        squares.addmm_(queries, block.T, alpha=-2)
        numbers = torch.arange(start, stop, device=device)

        # The k best of those before and of this block.
        best = torch.cat((best, squares), dim=1)
        indices = torch.cat((indices, numbers.expand(count, -1)), dim=1)
        most = min(k, stop)
        best, order = best.topk(most, largest=False)
        indices = indices.gather(1, order)
        progress(stop)
    distances = best.div(size).sqrt()
    return Nearest(indices.cpu().numpy(), distances.cpu().numpy())
