"""What is known of completions beside their bytes: the one place that names these numbers, of one
image and of several, in answers and in words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np

from scanline.model.sampling.kinds.kind import Kind

Numbers = TypeVar("Numbers")  # a float of one image, [n] float64 of n images


@dataclass(frozen=True, kw_only=True)
class Evidence(Generic[Numbers]):
    """Of completions; None of images that are painted from nothing."""

    # an estimate of -log2 of the probability of the known bytes
    evidence_bits: Numbers | None = None
    # the smallest effective number of particles on the way; near 1, more particles help
    effective_particles: Numbers | None = None


NAMES = tuple(field.name for field in fields(Evidence))


def summary(painted: Sequence[Evidence[np.ndarray]], kind: Kind) -> tuple[str, dict[str, Any]]:
    """Return what completions of this kind cost in words, and as fields of JSON."""
    numbers: dict[str, np.ndarray] = {}
    for name in NAMES:
        numbers[name] = np.concatenate([getattr(images, name) for images in painted])
    words = f", {numbers['evidence_bits'].mean():.2f} bits for the known pixels"
    if kind.candidates > 1:
        least = numbers["effective_particles"].min()
        words += f", at least {least:.1f} of {kind.candidates} particles effective"
    lists = {name: values.tolist() for name, values in numbers.items()}
    return words, kind.copies | lists
