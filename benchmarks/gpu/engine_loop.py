"""Engine loop with thousands in flight: its rate as a share of what the same generator paints
without it.

Requests of many clients come in one after the other, and a new one for each that ends, so that
images begin and end in every tick, as they do on a server. No HTTP: what the API adds is measured
by benchmarks/serving.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, make_generator, model, started, step_seconds
from scanline.model.sampling.base.messages import Cancel, Failed, Finished, GenerateRequest
from scanline.model.sampling.engine import Engine

REQUESTS = 64  # in progress at a time
WAVES = 2  # images of each slot that are counted, after the first of each


def engine_loop(sizes: Sizes) -> Iterator[Finding]:
    """Yield images/s through the engine, its share of the generator alone, and its ticks."""
    for name in sizes.models(PAPER[0], SHIPPED[0]):
        generator = started(model(name, sizes), sizes.most, **sizes.fastest)
        config = generator.config
        slots = generator.slots
        offline = slots / (config.steps * float(np.median(step_seconds(generator, sizes))))
        generator.close()
        what = f"engine/{name}/{slots}"
        note = "the generator alone, all images at one position"
        yield Finding(f"{what}/offline", offline, "images/s", note)

        generator = make_generator(model(name, sizes), slots, **sizes.fastest)
        load = Load(Engine(generator), slots, seconds_of_image=slots / offline)
        served, ticks, first = load.run(WAVES * slots)
        generator.close()
        yield Finding(f"{what}/served", served, "images/s", f"{WAVES * slots} images counted")
        yield Finding(f"{what}/served_of_offline", served / offline, "")
        median, p99 = np.percentile(ticks, (50, 99)).tolist()
        note = f"median of {len(ticks)}, p99 {1e3 * p99:.1f}"
        yield Finding(f"{what}/tick", 1e3 * median, "ms", note)
        note = "the tick that a request of all slots arrives in"
        yield Finding(f"{what}/first_tick", 1e3 * first, "ms", note)


class Load:
    """Clients that keep all slots of an engine busy."""

    def __init__(self, engine: Engine, slots: int, seconds_of_image: float) -> None:
        self.engine = engine
        self.slots = slots
        self.requests = min(REQUESTS, slots)
        self.pause = seconds_of_image / self.requests
        self.left: dict[int, int] = {}  # images by request
        self.sent = 0

    def run(self, counted: int) -> tuple[float, list[float], float]:
        """Return images/s over `counted` images, the seconds of each tick, and of a tick in which
        all slots fill."""
        ticks: list[float] = []
        self._until(lambda finished: self.sent >= 2 * self.requests and finished >= self.slots, [])
        began = time.perf_counter()
        finished = self._until(lambda finished: finished >= counted, ticks)
        rate = finished / (time.perf_counter() - began)
        for request in self.left:
            self.engine.accept(Cancel(request))
        self.engine.accept(GenerateRequest(-1, self.slots, seed=2, client="all"))
        began = time.perf_counter()
        self.engine.tick()
        return rate, ticks, time.perf_counter() - began

    def _until(self, enough: Callable[[int], bool], ticks: list[float]) -> int:
        """Run ticks until `enough` of the images that finished meanwhile; return their number."""
        finished = 0
        next_arrival = time.perf_counter()
        while not enough(finished):
            # the first requests arrive one by one; later ones where an earlier one has ended
            while len(self.left) < self.requests and (
                self.sent >= self.requests or self._due(next_arrival)
            ):
                images = self.slots // self.requests
                client = f"client {self.sent % 16}"
                request = GenerateRequest(self.sent, images, seed=self.sent, client=client)
                self.engine.accept(request)
                self.left[self.sent] = images
                self.sent += 1
                next_arrival += self.pause
            began = time.perf_counter()
            events = self.engine.tick()
            ticks.append(time.perf_counter() - began)
            for event in events:
                if isinstance(event, Failed):
                    raise RuntimeError(event.message)
                if isinstance(event, Finished):
                    finished += 1
                    self.left[event.request] -= 1
                    if not self.left[event.request]:
                        del self.left[event.request]
        return finished

    def _due(self, next_arrival: float) -> bool:
        return not self.left or time.perf_counter() >= next_arrival
