"""Programs for the same work, timed in turns, so that what slows the machine for a while slows them all."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

ROUNDS = 3  # turns of each program at one batch size


@dataclass(frozen=True)
class Rate:
    """What one program does with `batch` images in flight."""

    batch: int
    step_ms_median: float
    step_ms_p99: float
    images_per_second: float
    calls: int
    more: dict[str, Any] = field(default_factory=dict)  # what only one program has to say

    @classmethod
    def of(cls, batch: int, length: int, steps: list[float]) -> "Rate":
        """From the seconds of a step, one for each call that was timed, where every one of N steps costs the same."""
        median, p99 = (float(np.percentile(steps, q)) for q in (50, 99))
        return cls(batch, 1e3 * median, 1e3 * p99, batch / (length * median), len(steps))


class Contender(Protocol):
    """One program with its images in flight."""

    def measure(self, seconds: float) -> None:
        """Works for about that long and keeps its times."""

    def rate(self) -> Rate:
        """What all its times say."""

    def close(self) -> None:
        """Ends threads, frees memory."""


def in_turns(contenders: list[Contender], seconds: float) -> list[Rate]:
    """The rate of each, `seconds` of measuring for each, in ROUNDS turns."""
    try:
        for _ in range(ROUNDS):
            for contender in contenders:
                contender.measure(seconds / ROUNDS)
        return [contender.rate() for contender in contenders]
    finally:
        for contender in contenders:
            contender.close()
