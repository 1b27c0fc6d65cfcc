"""Counters of an engine's work: bytes, steps, and how long requests waited. Constant in size.

An image of several slots counts as so many images where slots are meant: those that run, and
those of a step. Its painted and known bytes count once.
"""

import time
from dataclasses import replace

from scanline.model.backends.backend import Painted
from scanline.model.sampling.base.histogram import BATCHES, LATENCIES, STEPS, Histogram
from scanline.model.sampling.base.messages import Stats

REPORT_SECONDS = 0.25  # between two Stats of a busy engine


class StatsRecorder:
    """Counters since the engine started, and the batch of the last tick."""

    def __init__(self) -> None:
        self.batch = 0  # busy slots in the last tick
        self.painted_bytes = self.known_bytes = self.shared_bytes = 0
        self.steps = 0
        self.computed_rows = 0
        self.wrong_guesses = 0
        self.queue = Histogram(LATENCIES)
        self.first_pixel = Histogram(LATENCIES)
        self.step_seconds = Histogram(STEPS)
        self.step_images = Histogram(BATCHES)
        self.reported = time.monotonic()
        # when the requests were accepted that got their first slot in this tick
        self.unpainted: list[float] = []
        self.drawn_bytes = 0  # first bytes of images placed in this tick that take no step

    def scheduled(self, accepted: float) -> float:
        """Count a request, accepted at that time, that has its first slot;
        return the seconds that it waited.
        """
        seconds = time.monotonic() - accepted
        self.queue.add(seconds)
        self.unpainted.append(accepted)
        return seconds

    def stepped(self, painted: Painted, passes: int, images: int) -> None:
        """Count passes of `images` images, and what was computed and guessed in them."""
        self.steps += passes
        self.computed_rows += painted.computed
        self.wrong_guesses += painted.wrong
        self.step_seconds.add(painted.seconds / passes, passes)
        self.step_images.add(images, passes)

    def launched(self, count: int) -> tuple[int, list[float]]:
        """Return how many bytes the started steps paint with those that were drawn, and when the
        requests were accepted whose first bytes are among them."""
        painted = count + self.drawn_bytes
        accepted = self.unpainted
        self.drawn_bytes = 0
        self.unpainted = []
        return painted, accepted

    def painted(self, count: int, accepted: list[float]) -> None:
        """Count painted bytes, among them the first ones of requests
        that were accepted at those times.
        """
        self.painted_bytes += count
        now = time.monotonic()
        for then in accepted:
            self.first_pixel.add(now - then)

    def due(self, idle: bool) -> bool:
        """Return whether to report now: a few times a second, and before the engine goes idle."""
        return idle or time.monotonic() - self.reported >= REPORT_SECONDS

    def report(self, progress: Stats) -> Stats:
        """Return everything counted so far, with what is in progress now."""
        self.reported = time.monotonic()
        return replace(
            progress,
            painted_bytes=self.painted_bytes,
            known_bytes=self.known_bytes,
            shared_bytes=self.shared_bytes,
            steps=self.steps,
            computed_rows=self.computed_rows,
            wrong_guesses=self.wrong_guesses,
            queue=self.queue.copy(),
            first_pixel=self.first_pixel.copy(),
            step_seconds=self.step_seconds.copy(),
            step_images=self.step_images.copy(),
        )
