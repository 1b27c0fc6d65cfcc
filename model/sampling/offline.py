"""Painting without a server: as many images as are wanted, through a generator, seat by seat."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import Generator, ImageSpec, Prefix


@dataclass(frozen=True)
class Painted:
    """Finished images, in the order of their canvases."""

    images: np.ndarray  # [n, N] uint8
    bits_per_dim: np.ndarray  # [n] float64


def paint(
    model: Transformer,
    count: int,
    *,
    seed: int,
    temperature: float = 1.0,
    known: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    steps: int = 16,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Callable[[int], None] = lambda bytes_painted: None,
) -> Painted:
    """`count` images of one seed, without a server; the same bytes that a server would paint.

    known [N] uint8 and mask [N] bool (True = known) make them completions. `progress` gets the bytes painted
    so far, known ones included.
    """
    canvases = (ImageSpec(seed, index, temperature, known, mask) for index in range(count))
    return paint_canvases(model, canvases, count, steps=steps, precision=precision, backend=backend, progress=progress)


def paint_canvases(
    model: Transformer,
    canvases: Iterable[ImageSpec],
    count: int,
    *,
    steps: int = 16,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Callable[[int], None] = lambda bytes_painted: None,
) -> Painted:
    """`count` canvases, each with what it knows; their indices are 0 .. count-1, in order."""
    most = 128 * torch.get_num_threads() if model.device.type == "cpu" else 4096  # more seats paint no faster
    generator = Generator(model, min(count, most), precision=precision, backend=backend)
    try:
        return _paint_all(generator, iter(canvases), count, steps, progress)
    finally:
        generator.close()


def _paint_all(
    generator: Generator, canvases: Iterator[ImageSpec], count: int, steps: int, progress: Callable[[int], None]
) -> Painted:
    length = generator.config.bytes
    result = Painted(np.empty((count, length), np.uint8), np.empty(count))
    prefix: Prefix | None = None
    prefilled: np.ndarray | None = None  # the known bytes that `prefix` is of: images that share them share it
    seated: dict[int, ImageSpec] = {}
    finished = 0
    while finished < count:
        for slot in range(generator.slots):
            if slot not in seated and (canvas := next(canvases, None)):
                if canvas.known is not prefilled:
                    prefix, prefilled = generator.prefill(canvas) if canvas.prefix else None, canvas.known
                generator.place(slot, canvas, prefix)
                seated[slot] = canvas
        generator.advance(steps)
        positions = generator.positions()
        for slot in [slot for slot in seated if positions[slot] == length]:
            canvas = seated.pop(slot)
            result.images[canvas.index] = generator.image(slot)
            result.bits_per_dim[canvas.index] = generator.bits_per_dim(slot)
            finished += 1
        progress(finished * length + int(positions[list(seated)].sum()))
    return result
