"""Occluded test images and what the model makes of them: the paper's figures 3 and 4."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import ImageSpec
from scanline.model.sampling.offline import paint_canvases


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
    count = len(originals) * each
    rows = [row for row in originals for _ in range(each)]  # one object for all completions of an original
    canvases = [ImageSpec(seed, index, known=row, mask=known) for index, row in enumerate(rows)]
    painted = paint_canvases(model, canvases, count, precision=precision, progress=progress)
    return Completions(originals, known, painted.images.reshape(len(originals), each, config.bytes))
