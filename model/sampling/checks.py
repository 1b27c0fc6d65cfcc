"""Images of several candidates: where steps stop, so that the generator
resamples them, and the choice at the end.

Which images these are is their kind's.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scanline.model.backends.groups import Groups
from scanline.model.sampling.assignment import SlotAssignment


def stops_of(
    images: Iterable[SlotAssignment],
    slots: np.ndarray,  # [n], ascending
    length: int,
) -> np.ndarray:
    """Return where the images in `slots` have to stop, [n]: at their next check, or at their end,
    byte `length`.
    """
    stops = np.full(len(slots), length)
    for image in images:
        if image.checks:
            rows = np.searchsorted(slots, image.slots)
            stops[rows] = image.checks[0]
    return stops


def bytes_to_check(images: Iterable[SlotAssignment], positions: np.ndarray, length: int) -> int:
    """Return how many bytes are left, at most `length`, until the first of the images, which stand
    at `positions` [slots], is at its check with all of its candidates.
    """
    left = length
    for image in images:
        if image.checks:
            to_check = image.checks[0] - image.painted(positions)
            left = min(left, to_check)
    return left


def at_check(images: Iterable[SlotAssignment], positions: np.ndarray) -> list[Groups]:
    """Return those images that are at a check, which is taken from their checks."""
    due: list[SlotAssignment] = []
    for image in images:
        if image.checks and image.checks[0] == image.painted(positions):
            image.checks = image.checks[1:]
            due.append(image)
    leaders = [image.slot for image in due]
    return groups_of(due, positions[leaders])


def to_choose(finished: Iterable[SlotAssignment], length: int) -> list[Groups]:
    """Return the candidates of complete images of `length` bytes, of which each ends in one."""
    several = [image for image in finished if len(image.candidates) > len(image.ends)]
    positions = np.full(len(several), length)
    return groups_of(several, positions)


def groups_of(
    images: Sequence[SlotAssignment],
    positions: np.ndarray,  # [n] int64, of the images
) -> list[Groups]:
    """Return the slots of images with their positions, those of equally many candidates
    together.
    """
    if not images:  # as in nearly every tick
        return []
    sizes = np.array([len(image.slots) for image in images])
    groups: list[Groups] = []
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        slots = np.array([images[row].slots for row in rows.tolist()], np.int64)
        groups.append(Groups(slots, positions[rows]))
    return groups
