"""The lag of the event loop, which delays every answer of the server."""

import asyncio
import logging
import time
from asyncio.events import TimerHandle
from collections import deque

from scanline.model.sampling.base.histogram import Histogram

log = logging.getLogger("scanline.server")

PERIOD_SECONDS = 0.05  # between two measurements
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # seconds
MAX_SECONDS = 60.0  # how far back `recent_max` looks
WARNING_SECONDS = 0.5
WARNING_PAUSE_SECONDS = 10.0  # between two warnings


class LoopLag:
    """Measure by how much a timer of PERIOD_SECONDS fires late, from `start` to `stop`."""

    def __init__(self) -> None:
        self.seconds = Histogram(BOUNDS)
        # time and lag of those that no later one exceeds
        self._maxima: deque[tuple[float, float]] = deque()
        self._timer: TimerHandle | None = None
        self._warn_from = 0.0  # no warning before this time

    def start(self) -> None:
        """Measure the running loop."""
        self._loop = asyncio.get_running_loop()
        self._schedule()

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def recent_max(self) -> float:
        """The longest lag of the last MAX_SECONDS, in seconds."""
        self._forget(time.monotonic())
        return self._maxima[0][1] if self._maxima else 0.0

    def _schedule(self) -> None:
        self._due = self._loop.time() + PERIOD_SECONDS
        self._timer = self._loop.call_at(self._due, self._measure)

    def _measure(self) -> None:
        lag = max(0.0, self._loop.time() - self._due)
        now = time.monotonic()
        self.seconds.add(lag)
        self._forget(now)
        # The deque falls from its first, the maximum, to its last: what is smaller
        # and older will never be the maximum.
        while self._maxima and self._maxima[-1][1] <= lag:
            self._maxima.pop()
        self._maxima.append((now, lag))
        if lag > WARNING_SECONDS and now >= self._warn_from:
            self._warn_from = now + WARNING_PAUSE_SECONDS
            log.warning(
                "the event loop was blocked for %.2f seconds; no request was answered in that time",
                lag,
            )
        self._schedule()

    def _forget(self, now: float) -> None:
        while self._maxima and self._maxima[0][0] < now - MAX_SECONDS:
            self._maxima.popleft()
