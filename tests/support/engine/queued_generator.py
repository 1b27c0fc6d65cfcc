"""A generator whose device works later, in order, when a result is waited for, as a GPU does."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from scanline.model.backends.particles import Groups
from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import Fetched
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.prefill_state import PrefillState, Prefix
from scanline.model.sampling.kinds.image_spec import ImageSpec

Result = TypeVar("Result")


class QueuedGenerator(Generator):
    """Computes on a CPU, but as late as it may."""

    is_asynchronous = True  # type: ignore[assignment]
    queue: list[Callable[[], object]]

    def submit(self, work: Callable[[], Result]) -> Pending[Result]:
        """Queue work; waiting for its result does all that was queued before it first."""
        if "queue" not in vars(self):
            self.queue = []
        done: list[Result] = []
        self.queue.append(lambda: done.append(work()))

        def result() -> Result:
            while not done:
                self.queue.pop(0)()
            return done[0]

        return Pending(result)

    def place_many(
        self,
        slots: Sequence[int],
        specs: Sequence[ImageSpec],
        prefixes: Sequence[Prefix | None] | None = None,
    ) -> None:
        self.submit(lambda: super(QueuedGenerator, self).place_many(slots, specs, prefixes))

    def clear(self, slots: Sequence[int]) -> None:
        self.submit(lambda: super(QueuedGenerator, self).clear(slots))

    def start(self, slots: np.ndarray, steps: int) -> Pending[float]:
        return self.submit(lambda: super(QueuedGenerator, self).start(slots, steps).wait())

    def fetch(self, slots: Sequence[int]) -> Pending[Fetched]:
        return self.submit(lambda: super(QueuedGenerator, self).fetch(slots).wait())

    def state(self, slot: int, layer: int, head: int) -> Pending[tuple[np.ndarray, np.ndarray]]:
        return self.submit(lambda: super(QueuedGenerator, self).state(slot, layer, head).wait())

    def resample(self, groups: Groups) -> None:
        self.submit(lambda: super(QueuedGenerator, self).resample(groups))

    def choose(self, groups: Groups) -> None:
        self.submit(lambda: super(QueuedGenerator, self).choose(groups))

    def _run(self, prefill: PrefillState, start: int, stop: int) -> Pending[float]:
        return self.submit(lambda: super(QueuedGenerator, self)._run(prefill, start, stop).wait())
