"""Occluded test images and what the model makes of them: the paper's figures 3 and 4."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.sampling.offline import paint_request


@dataclass(frozen=True)
class Completions:
    """Originals [n, N] uint8, which bytes of them the model saw [N] bool, its completions [n, k, N] uint8."""

    originals: np.ndarray
    known: np.ndarray
    completed: np.ndarray


def complete(
    model: Transformer,
    originals: np.ndarray,
    each: int,
    *,
    seed: int,
    precision: str = DEFAULT,
    progress: Callable[[int], None] = lambda bytes_painted: None,
) -> Completions:
    """`each` completions of every original [n, N] uint8, of which the upper half of the rows is kept."""
    config = model.config
    known = np.arange(config.bytes) < config.height // 2 * config.width * config.channels
    rows = tuple(row.tobytes() for row in originals)
    request = GenerateRequest(0, len(originals) * each, seed, known=rows, masks=(known.tobytes(),) * len(rows))
    painted = paint_request(model, request, precision=precision, progress=progress)
    return Completions(originals, known, painted.images.reshape(len(originals), each, config.bytes))
