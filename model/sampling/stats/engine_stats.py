"""Counters of an engine's work: bytes, steps, and how long requests waited. Constant in size.

An image of several slots counts as so many images where slots are meant: those that run, and
those of a step. Its painted and known bytes count once.
"""

import time

from scanline.model.backends.backend import Painted
from scanline.model.sampling.base.messages import Stats

REPORT_SECONDS = 0.25  # between two Stats of a busy engine


class StatsRecorder:
    """Counters since the engine started, and the batch of the last tick."""

    def __init__(self) -> None:
        self.batch = 0  # busy slots in the last tick
        self.done = Stats()  # without what is done now
        self.reported = time.monotonic()
        # when the requests were accepted that got their first slot in this tick
        self.unpainted: list[float] = []
        self.drawn_bytes = 0  # first bytes of images placed in this tick that take no step

    def scheduled(self, accepted: float) -> float:
        """Count a request, accepted at that time, that has its first slot;
        return the seconds that it waited.
        """
        seconds = time.monotonic() - accepted
        self.done.queue.add(seconds)
        self.unpainted.append(accepted)
        return seconds

    def stepped(self, painted: Painted, passes: int, images: int) -> None:
        """Count passes of `images` images, and what was computed and guessed in them."""
        done = self.done
        done.steps += passes
        done.computed_rows += painted.computed
        done.wrong_guesses += painted.wrong
        done.step_seconds.add(painted.seconds / passes, passes)
        done.step_images.add(images, passes)

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
        self.done.painted_bytes += count
        now = time.monotonic()
        for then in accepted:
            self.done.first_pixel.add(now - then)

    def due(self, idle: bool) -> bool:
        """Return whether to report now: a few times a second, and before the engine goes idle."""
        return idle or time.monotonic() - self.reported >= REPORT_SECONDS

    def report(self, progress: Stats) -> Stats:
        """Return everything counted so far, with what is in progress now."""
        self.reported = time.monotonic()
        return progress + self.done
