"""What an engine counts of its own work: bytes, steps, and how long requests waited. Constant in size."""

import time

from scanline.model.sampling.histogram import BATCHES, LATENCIES, STEPS, Histogram
from scanline.model.sampling.messages import Stats

REPORT_SECONDS = 0.25  # between two Stats of a busy engine


class StatsRecorder:
    """Counters since the engine started, and the batch of the last tick."""

    def __init__(self) -> None:
        self.batch = 0  # images in the last tick: after it, the slots of those that finished are empty
        self.painted_bytes = self.known_bytes = self.steps = 0
        self.queue, self.first_pixel = Histogram(LATENCIES), Histogram(LATENCIES)
        self.step_seconds, self.step_images = Histogram(STEPS), Histogram(BATCHES)
        self.reported = time.monotonic()
        self.unpainted: list[float] = []  # when the requests were accepted that got their first slot in this tick

    def scheduled(self, accepted: float) -> float:
        """A request accepted at that time has its first slot; return the seconds that it waited."""
        seconds = time.monotonic() - accepted
        self.queue.add(seconds)
        self.unpainted.append(accepted)
        return seconds

    def stepped(self, steps: int, seconds: float, images: int) -> None:
        """So many steps of `images` images took `seconds` each."""
        self.steps += steps
        self.step_seconds.add(seconds, steps)
        self.step_images.add(images, steps)

    def painted(self, count: int) -> None:
        """So many bytes were painted in this tick, the first ones of its newly scheduled requests among them."""
        self.painted_bytes += count
        now = time.monotonic()
        for accepted in self.unpainted:
            self.first_pixel.add(now - accepted)
        self.unpainted.clear()

    def due(self, idle: bool) -> bool:
        """Whether to report now: a few times a second, and before the engine goes idle."""
        return idle or time.monotonic() - self.reported >= REPORT_SECONDS

    def report(
        self,
        *,
        requests_running: int,
        requests_waiting: int,
        images_running: int,
        images_waiting: int,
        scores_running: int,
        scores_waiting: int,
    ) -> Stats:
        """Everything counted so far, with what is in progress now."""
        self.reported = time.monotonic()
        return Stats(
            requests_running=requests_running,
            requests_waiting=requests_waiting,
            images_running=images_running,
            images_waiting=images_waiting,
            scores_running=scores_running,
            scores_waiting=scores_waiting,
            painted_bytes=self.painted_bytes,
            known_bytes=self.known_bytes,
            steps=self.steps,
            queue=self.queue.copy(),
            first_pixel=self.first_pixel.copy(),
            step_seconds=self.step_seconds.copy(),
            step_images=self.step_images.copy(),
        )
