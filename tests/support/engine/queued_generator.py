"""A generator whose device works later, in order, when a result is waited for, as a GPU does."""

from collections import deque

from scanline.model.backends.pending import Pending
from scanline.model.sampling.base.generator import Generator, Started

LATER = ("place_many", "clear", "step", "fetch", "position", "state", "resample", "choose")


class SteppingGenerator(Generator):
    """Paints step by step, where its backend could paint ahead."""

    paints_ahead = False


class QueuedGenerator(SteppingGenerator):
    """Computes on a CPU, but as late as it may."""

    is_asynchronous = True

    def __init__(self, *arguments, **options):
        self.queue = deque()
        super().__init__(*arguments, **options)

    def start_prefill(self, *arguments, **options):
        prefill = super().start_prefill(*arguments, **options)
        read = prefill.read
        prefill.read = lambda *given: self.submit(lambda: read(*given))
        return prefill

    def submit(self, work):
        """Queue work; waiting for its result does all that was queued before it first."""
        done = []

        def run():
            result = work()
            done.append(result.wait() if isinstance(result, Pending) else result)

        def result():
            while not done:
                self.queue.popleft()()
            return done[0]

        self.queue.append(run)
        return Pending(result)


def _later(name):
    """The method of that name of a generator, queued."""
    method = getattr(Generator, name)

    def queued(self, *arguments):
        return self.submit(lambda: method(self, *arguments))

    return queued


for _name in LATER:
    setattr(QueuedGenerator, _name, _later(_name))


class LateGenerator(QueuedGenerator):
    """Paints ahead besides, where its backend can, so that it is known late where images stand."""

    @property
    def paints_ahead(self):
        return self.backend.paints_ahead

    def start(self, slots, positions, passes, stops):
        if not self.paints_ahead:
            return super().start(slots, positions, passes, stops)

        def work():
            return Generator.start(self, slots, positions, passes, stops)

        started = self.submit(work)
        return Started(
            positions=Pending(lambda: started.wait().positions.wait()),
            painted=Pending(lambda: started.wait().painted.wait()),
        )
