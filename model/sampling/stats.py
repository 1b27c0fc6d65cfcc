"""What an engine counts of its own work, beside the tick and at no cost to it.

Reads no clock but the monotonic one of its process. Sizes are bounded by the slots and the requests in work.
"""

import time

import numpy as np

from scanline.model.sampling.histogram import BATCHES, LATENCIES, STEPS, Histogram
from scanline.model.sampling.messages import Stats

REPORT_SECONDS = 0.25  # between two Stats of a busy engine


class StatsRecorder:
    """Invariant between ticks: `positions` is where every seated image stands, `length` for an empty slot."""

    def __init__(self, slots: int, length: int) -> None:
        self.length = length
        self.positions = np.full(slots, length, np.int64)
        self.running: set[int] = set()  # requests of which an image has been seated
        self.begun: dict[int, float] = {}  # when requests were accepted that have a seat and no byte yet
        self.batch = 0  # images of the last tick: between two ticks the slots of those that are done stand empty
        self.painted_bytes = self.known_bytes = self.steps = 0
        self.queue, self.first_pixel = Histogram(LATENCIES), Histogram(LATENCIES)
        self.step_seconds, self.step_images = Histogram(STEPS), Histogram(BATCHES)
        self.reported = time.monotonic()

    def seated(self, request: int, accepted: float, slot: int, prefix: int) -> None:
        """An image starts in a slot, its first `prefix` bytes known; its request was accepted at that time."""
        self.positions[slot] = prefix
        self.known_bytes += prefix
        if request not in self.running:
            self.running.add(request)
            self.begun[request] = accepted
            self.queue.add(time.monotonic() - accepted)

    def stepped(self, steps: int, each: float, images: int) -> None:
        """So many steps of `images` images took `each` seconds."""
        self.steps += steps
        self.step_seconds.add(each, steps)
        self.step_images.add(images, steps)

    def painted(self, positions: np.ndarray) -> None:
        """Where every slot's image stands after the steps, [slots]."""
        self.painted_bytes += int((positions - self.positions).sum())
        self.positions[:] = positions
        if self.begun:
            now = time.monotonic()
            for accepted in self.begun.values():
                self.first_pixel.add(now - accepted)
            self.begun.clear()

    def cleared(self, slot: int) -> None:
        """A slot is empty."""
        self.positions[slot] = self.length

    def ended(self, request: int) -> None:
        """A request is no longer in work, however it ended."""
        self.running.discard(request)
        self.begun.pop(request, None)

    def due(self, idle: bool) -> bool:
        """Whether it is time to report: a few times a second, and before the engine falls silent."""
        return idle or time.monotonic() - self.reported >= REPORT_SECONDS

    def report(self, requests: int, images_running: int, images_waiting: int) -> Stats:
        """All that has been counted so far; `requests` are all in work."""
        self.reported = time.monotonic()
        return Stats(
            requests_running=len(self.running),
            requests_waiting=requests - len(self.running),
            images_running=images_running,
            images_waiting=images_waiting,
            painted_bytes=self.painted_bytes,
            known_bytes=self.known_bytes,
            steps=self.steps,
            queue=self.queue.copy(),
            first_pixel=self.first_pixel.copy(),
            step_seconds=self.step_seconds.copy(),
            step_images=self.step_images.copy(),
        )
