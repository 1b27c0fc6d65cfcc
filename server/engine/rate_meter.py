"""Throughput of a full engine in images a second, measured over
the last minute in which it was full.

An engine with free slots finishes fewer images than it could, so that
time does not count. Knows no request.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 60
KNOWN_SECONDS = 5.0  # of a full engine: a shorter measurement is not relied on


@dataclass
class Second:
    """What happened in one second of the clock."""

    started: int
    full_seconds: float = 0.0
    images: int = 0


class RateMeter:
    """Constant in size: one entry for each of the last WINDOW_SECONDS."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.seconds: deque[Second] = deque()
        self.updated = clock()
        self.is_full = False

    def update(self, finished: int, is_full: bool) -> None:
        """Count images finished since the last update; `is_full`: whether
        every slot is in use from now on.
        """
        now = self.clock()
        if self.is_full:
            if not self.seconds or self.seconds[-1].started != int(now):
                self.seconds.append(Second(int(now)))
            self.seconds[-1].full_seconds += now - self.updated
            self.seconds[-1].images += finished
        self.updated = now
        self.is_full = is_full
        while self.seconds and self.seconds[0].started < now - WINDOW_SECONDS:
            self.seconds.popleft()

    def images_per_second(self, least: int = 1) -> float | None:
        """Return the rate; None where fewer than `least` images or KNOWN_SECONDS were measured."""
        self.update(0, self.is_full)
        seconds = sum(second.full_seconds for second in self.seconds)
        images = sum(second.images for second in self.seconds)
        return images / seconds if images >= least and seconds >= KNOWN_SECONDS else None
