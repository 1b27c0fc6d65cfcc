"""Images of several candidates: where steps stop, so that the generator
resamples them, and the choice at the end.

Which images these are is their kind's.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scanline.model.backends.groups import Groups
from scanline.model.sampling.assignment import SlotAssignment


def steps_to_check(
    images: Iterable[SlotAssignment], positions: np.ndarray, steps: int, step_bytes: int
) -> int:
    """Return at most `steps` steps, so many that no image of those at
    `positions` [slots] passes its next check.
    """
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


def to_choose(finished: Iterable[SlotAssignment], length: int) -> list[Groups]:
    """Return the candidates of complete images of `length` bytes, of which each ends in one."""
    several = [image for image in finished if len(image.candidates) > 1]
    return groups_of(several, [length] * len(several))


def groups_of(images: Sequence[SlotAssignment], positions: Sequence[int]) -> list[Groups]:
    """Return the slots of images with their positions, those of
    equally many candidates together.
    """
    if not images:  # as in nearly every tick
        return []
    sizes = np.array([len(image.slots) for image in images])
    groups: list[Groups] = []
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size).tolist()
        slots = np.array([images[row].slots for row in rows], np.int64)
        groups.append(Groups(slots, np.array([positions[row] for row in rows], np.int64)))
    return groups
