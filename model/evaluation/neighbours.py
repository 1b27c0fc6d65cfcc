"""Search for the training images nearest to given ones, by L2 in pixel space: has the model memorised images?"""

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
    """Return the k nearest in pool [m, N] uint8 of each image [n, N] uint8; `progress` gets the pool images searched.

    Candidates are found by |a|^2 + |b|^2 - 2 ab in float32, then measured exactly: a copy is at distance 0.
    """
    centred = torch.from_numpy(images.copy()).to(device).float().sub(127.5)
    own = centred.square().sum(dim=1, keepdim=True)
    candidates = min(k + 3, len(pool))  # rounding may swap neighbours that are nearly as far
    best = torch.full((len(images), candidates), torch.inf, device=device)
    indices = torch.zeros(len(images), candidates, dtype=torch.int64, device=device)
    for start in range(0, len(pool), BLOCK):
        block = torch.from_numpy(pool[start : start + BLOCK].copy()).to(device).float().sub(127.5)
        squares = (own + block.square().sum(dim=1)).addmm_(centred, block.T, alpha=-2)
        here = torch.arange(start, start + len(block), device=device).expand(len(images), -1)
        best, order = torch.cat((best, squares), dim=1).topk(candidates, largest=False)
        indices = torch.cat((indices, here), dim=1).gather(1, order)
        progress(start + len(block))
    found = indices.cpu().numpy()
    exact = np.stack([_rms(images, pool[found[:, rank]]) for rank in range(candidates)], axis=1)
    ranks = exact.argsort(axis=1, kind="stable")[:, :k]
    return Nearest(np.take_along_axis(found, ranks, axis=1), np.take_along_axis(exact, ranks, axis=1))


def _rms(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the root mean square differences [n] of the rows of uint8 arrays [n, N]."""
    apart = first.astype(np.int32) - second
    root: np.ndarray = np.sqrt(np.square(apart).mean(axis=1, dtype=np.float64))
    return root
