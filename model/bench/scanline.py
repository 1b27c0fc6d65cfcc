"""Scanline's own generator as it is measured: many images in flight, or one alone from call to bytes."""

from scanline.model.bench.baseline import Rate
from scanline.model.bench.correctness import SEED, STEPS, Reference
from scanline.model.bench.machine import durations
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec


class Ours:
    """`batch` images in flight, all in the middle of painting; one that nears its end starts again."""

    def __init__(self, model: Transformer, batch: int, reference: Reference, precision: str = DEFAULT) -> None:
        self.generator, self.reference = Generator(model, batch, precision=precision), reference
        self.device = model.device.type
        self.steps = min(STEPS, model.config.bytes - model.config.first)
        self.times: list[float] = []
        self._start()

    def measure(self, seconds: float) -> None:
        """Each call paints `steps` bytes of every image; what it painted is checked, on nobody's time."""
        times = durations(
            lambda: self.generator.advance(self.steps), seconds, self.device, prepare=self._start_again_where_due
        )
        self.reference.hold(self.generator)
        self.times += [taken / self.steps for taken in times]

    def rate(self) -> Rate:
        return Rate.of(self.generator.slots, self.generator.config.bytes, self.times)

    def close(self) -> None:
        self.generator.close()

    def _start_again_where_due(self) -> None:
        if self.generator.positions().max() + self.steps > self.generator.config.bytes:
            self.reference.hold(self.generator)
            self._start()

    def _start(self) -> None:
        for slot in range(self.generator.slots):
            self.generator.place(slot, ImageSpec(SEED, slot))


def alone(model: Transformer, seconds: float, reference: Reference, precision: str = DEFAULT) -> list[float]:
    """Seconds of one image from call to bytes, in a generator that stands ready, as a server's does."""
    generator = Generator(model, 1, precision=precision)

    def paint() -> None:
        generator.place(0, ImageSpec(SEED, 0))
        while generator.positions()[0] < generator.config.bytes:
            generator.advance(2 * STEPS)
        generator.image(0)

    try:
        times = durations(paint, seconds, model.device.type)
        reference.hold(generator)
        return times
    finally:
        generator.close()
