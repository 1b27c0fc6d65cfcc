"""Whether what is about to be measured is right: images of the run's own seed, painted once, hold every later one.

Their running likelihood must be the parallel view's, and the same bytes must come at every batch size, in the first
slot, the second and the last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch

from scanline.model.evaluation.likelihood import bits
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec

SEED = 1
STEPS = 8  # bytes painted in one call
HEAD = 16  # bytes that are painted at every batch size before anything is measured
BOUND = {True: 1e-3, False: 2e-2}  # bits/dim of an image between the two views, exact or with fewer bits


class WrongResultError(ArithmeticError):
    """The product is wrong, so that its speed means nothing; the message is one sentence."""


@dataclass(frozen=True)
class Reference:
    """Images as they must be, painted in a small company; how far their two views lie apart, and what painted them."""

    images: dict[int, np.ndarray]  # index -> [N] uint8
    views_differ: float  # bits/dim, the largest
    program: str

    def hold(self, generator: Generator) -> None:
        """WrongResultError where a generator's bytes so far are others; it paints image i of SEED in slot i."""
        positions = generator.positions()
        for slot in sorted(set(self.images) & set(range(generator.slots))):
            painted = generator.image(slot)[: positions[slot]]
            differ = np.flatnonzero(painted != self.images[slot][: len(painted)])
            if len(differ):
                raise WrongResultError(
                    f"byte {differ[0]} of image {slot} is another one with {generator.slots} images in flight"
                )


def reference(model: Transformer, batches: Sequence[int], precision: str = DEFAULT) -> Reference:
    """Paints and checks; WrongResultError where the views or the batch sizes differ."""
    indices = sorted({0, 1, *(batch - 1 for batch in batches)})
    generator = Generator(model, len(indices), precision=precision)
    try:
        for slot, index in enumerate(indices):
            generator.place(slot, ImageSpec(SEED, index))
        while generator.positions().min() < model.config.bytes:
            generator.advance(STEPS)
        images = np.stack([generator.image(slot) for slot in range(len(indices))])
        running = [generator.bits_per_dim(slot) for slot in range(len(indices))]
    finally:
        generator.close()
    differ = views_differ(model, images, running)
    found = Reference(dict(zip(indices, images, strict=True)), differ, generator.backend.name)
    bound = BOUND[precision == DEFAULT]
    if not differ <= bound:
        raise WrongResultError(
            f"recurrent steps and the parallel view differ by {differ:.2g} bits/dim, more than {bound}"
        )
    for batch in batches:
        same_at(found, model, batch, precision)
    return found


def views_differ(model: Transformer, images: np.ndarray, running: list[float]) -> float:
    """The largest difference in bits/dim between likelihoods kept while painting and those of the parallel view."""
    each = [bits(model, torch.from_numpy(image[None]).to(model.device)).mean().item() for image in images]
    apart = [0.0 if one == other else abs(one - other) for one, other in zip(each, running, strict=True)]
    return max(apart) if all(map(isfinite, apart)) else float("inf")


def same_at(found: Reference, model: Transformer, batch: int, precision: str) -> None:
    """Holds the first bytes of `batch` images in flight against the reference."""
    generator = Generator(model, batch, precision=precision)
    try:
        for slot in range(batch):
            generator.place(slot, ImageSpec(SEED, slot))
        generator.advance(HEAD)
        found.hold(generator)
    finally:
        generator.close()
