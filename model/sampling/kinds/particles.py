"""A completion by several particles, a slot each, weighed by the known bytes after hidden
ones (sequential Monte Carlo; Chopin and Papaspiliopoulos 2020, chapter 10). The arithmetic is
that of `model/backends/particles.py`.

At a check, an image's particles are resampled where few of them carry most of the weight. Where the
checks are is a function of the image's mask alone, so that its bytes do not depend on what else is
painted. Streams get the bytes in which all particles agree.
"""

from dataclasses import replace

import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind


class Particles(Kind):
    param = "particles"
    counted = ", each particle counted as one"

    def __init__(self, count: int) -> None:
        self.slots = self.candidates = count
        self.needs = f"an image of {count} particles needs one for each"

    def drawn(self, spec: ImageSpec) -> ImageSpec:
        return replace(spec, particles=self.slots)

    def specs(self, spec: ImageSpec) -> tuple[ImageSpec, ...]:
        """See Kind.specs: particles differ in their random numbers alone."""
        return tuple(replace(spec, particle=number) for number in range(self.slots))

    def checks(self, spec: ImageSpec, config: ModelConfig) -> tuple[int, ...]:
        assert spec.mask is not None
        return tuple(checks(spec.mask, config))


def are_weighed(mask: bytes) -> bool:
    """Return whether a known byte follows a hidden one, by which particles are weighed.

    mask: N bytes, 1 where a byte is known.
    """
    hidden = mask.find(0)
    return hidden >= 0 and mask.find(1, hidden) >= 0


def checks(mask: np.ndarray, config: ModelConfig) -> list[int]:
    """Return the positions, ascending, before which the particles of an image are resampled.

    mask: [N] bool, True where a byte is known. A check is before the first step of a row of
    pixels that has a hidden byte, if a known byte lies between the check before it, or at first
    the first hidden byte, and the step.
    """
    hidden = np.flatnonzero(~mask)
    if not len(hidden):
        return []
    rows = hidden // (config.width * config.channels)
    _, firsts = np.unique(rows, return_index=True)
    first_bytes = hidden[firsts]
    steps = first_bytes - first_bytes % config.step_bytes
    known = np.concatenate(([0], np.cumsum(mask)))  # [N + 1] known bytes before each
    positions: list[int] = []
    since = int(hidden[0])
    for step in steps.tolist():
        if step > since and known[step] > known[since]:
            positions.append(step)
            since = step
    return positions
