"""The schedule of particles: when those of an image are resampled (sequential Monte Carlo; Chopin and Papaspiliopoulos
2020, chapter 10). The arithmetic is that of `model/backends/particles.py`.

At a check, an image's particles are resampled where few of them carry most of the weight. Where the checks are is a
function of the image's mask alone, so that its bytes do not depend on what else is painted.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scanline.model.backends.particles import Groups
from scanline.model.config import ModelConfig
from scanline.model.sampling.scheduler import SlotAssignment


def checks(mask: np.ndarray, config: ModelConfig) -> list[int]:
    """Return the positions, ascending, before which the particles of an image are resampled.

    mask: [N] bool, True where a byte is known. A check is before the first step of a row of pixels that has a hidden
    byte, if a known byte lies between the check before it, or at first the first hidden byte, and the step.
    """
    hidden = np.flatnonzero(~mask)
    if not len(hidden):
        return []
    _, firsts = np.unique(hidden // (config.width * config.channels), return_index=True)
    steps = hidden[firsts] - hidden[firsts] % config.step_bytes
    known = np.concatenate(([0], np.cumsum(mask)))  # [N + 1] known bytes before each
    positions, since = [], int(hidden[0])
    for step in steps.tolist():
        if step > since and known[step] > known[since]:
            positions.append(step)
            since = step
    return positions


def steps_to_check(images: Iterable[SlotAssignment], positions: np.ndarray, steps: int, step_bytes: int) -> int:
    """Return at most `steps` steps, so many that no image of those at `positions` [slots] passes its next check."""
    for image in images:
        if image.checks:
            steps = min(steps, (image.checks[0] - int(positions[image.slot])) // step_bytes)
    return steps


def at_check(images: Iterable[SlotAssignment], positions: np.ndarray) -> list[Groups]:
    """Return those images that are at a check, which is taken from their checks."""
    due = [image for image in images if image.checks and image.checks[0] == positions[image.slot]]
    for image in due:
        image.checks = image.checks[1:]
    return groups_of(due, [int(positions[image.slot]) for image in due])


def groups_of(images: Sequence[SlotAssignment], positions: Sequence[int]) -> list[Groups]:
    """Return the slots of images with their positions, those of equally many particles together."""
    if not images:  # as in nearly every tick
        return []
    sizes, groups = np.array([len(image.slots) for image in images]), []
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size).tolist()
        slots = np.array([images[row].slots for row in rows], np.int64)
        groups.append(Groups(slots, np.array([positions[row] for row in rows], np.int64)))
    return groups


def agreed(images: np.ndarray, stop: int) -> int:
    """Return the first byte before `stop` in which particles [P, N] uint8 differ; `stop` where there is none.

    It only grows: what is resampled later comes from these, and so does the image that is chosen at the end.
    """
    differs = (images[1:, :stop] != images[0, :stop]).any(axis=0)
    return int(differs.argmax()) if differs.any() else stop
