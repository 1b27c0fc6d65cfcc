"""Checks of a model's results before any speed is measured.

A few images are generated once, in a small batch. Their likelihood, summed up step by step while
generating, must be that of the parallel view, and every later measurement must produce the same
bytes in its first, second and last slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch

from scanline.model.base.precision import DEFAULT
from scanline.model.evaluation.likelihood import bits
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec

SEED = 1
STEPS = 8  # of every image in one call
CHECKED_STEPS = 16  # painted and compared at every batch size before anything is measured
BOUND_EXACT = 1e-3  # largest difference of an image between the two views, bits/dim
BOUND_REDUCED = 2e-2  # the same where weights or states are stored in fewer bits


class WrongResultError(ArithmeticError):
    """The model computes something else than it should, so its speed means nothing. The message is
    one sentence."""


@dataclass(frozen=True)
class Reference:
    """Images that every measurement must reproduce."""

    images: dict[int, np.ndarray]  # index -> [N] uint8
    views_differ: float  # largest difference between the recurrent and the parallel view, bits/dim
    program: str  # that painted them, for people
    backend: str  # its name
    fallbacks: tuple[str, ...]  # for each faster backend, "name: why it is not used"
    model: Transformer  # that it runs; a copy on the CPU where no backend works on the GPU

    def check(self, generator: Generator) -> None:
        """Raise WrongResultError if bytes painted so far differ; `generator` has image i of SEED in
        slot i."""
        positions = generator.positions()
        for slot in sorted(self.images):
            if slot >= generator.slots:
                continue
            painted = generator.image(slot)[: positions[slot]]
            differing = np.flatnonzero(painted != self.images[slot][: len(painted)])
            if len(differing):
                raise WrongResultError(
                    f"byte {differing[0]} of image {slot} differs from the reference with {generator.slots} images"
                    " in flight"
                )


def make_reference(
    model: Transformer, batches: Sequence[int], precision: str = DEFAULT, backend: str | None = None
) -> Reference:
    """Paint the images of the first, second and last slot of every batch size, and check them.

    WrongResultError if the two views differ by more than the
    bound, or if a batch size changes a byte.
    """
    indices = sorted({0, 1, *(batch - 1 for batch in batches)})
    generator = Generator(model, len(indices), precision=precision, backend=backend)
    model = generator.model
    try:
        generator.place_many(range(len(indices)), [ImageSpec(SEED, index) for index in indices])
        while generator.positions().min() < model.config.bytes:
            generator.advance(STEPS)
        images = np.stack([generator.image(slot) for slot in range(len(indices))])
        bits_per_dim = [generator.bits_per_dim(slot) for slot in range(len(indices))]
    finally:
        generator.close()
    difference = views_differ(model, images, bits_per_dim)
    bound = BOUND_EXACT if precision == DEFAULT else BOUND_REDUCED
    if not difference <= bound:
        raise WrongResultError(
            f"recurrent and parallel views differ by {difference:.2g} bits/dim, more than {bound}"
        )
    reference = Reference(
        dict(zip(indices, images, strict=True)),
        difference,
        generator.backend.name,
        generator.backend_name,
        generator.fallbacks,
        model,
    )
    for batch in batches:
        _check_batch(reference, batch, precision)
    return reference


def views_differ(model: Transformer, images: np.ndarray, bits_per_dim: list[float]) -> float:
    """Return the largest difference between `bits_per_dim`, kept while painting images, and the
    parallel view."""
    largest = 0.0
    for image, recurrent in zip(images, bits_per_dim, strict=True):
        parallel = bits(model, torch.from_numpy(image[None]).to(model.device)).mean().item()
        # both are infinite in rare cases
        difference = 0.0 if parallel == recurrent else abs(parallel - recurrent)
        if not isfinite(difference):
            return float("inf")
        largest = max(largest, difference)
    return largest


def _check_batch(reference: Reference, batch: int, precision: str) -> None:
    """Compare the bytes of the first steps with `batch` images in flight with the reference."""
    generator = Generator(reference.model, batch, precision=precision, backend=reference.backend)
    try:
        generator.place_many(range(batch), [ImageSpec(SEED, slot) for slot in range(batch)])
        generator.advance(CHECKED_STEPS)
        reference.check(generator)
    finally:
        generator.close()
