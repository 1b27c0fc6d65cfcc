"""Images painted alone, each once, and generators that break: what an engine's events are held to."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from scanline.kernels.codec.coder import encode
from scanline.model.backends.particles import Groups
from scanline.model.backends.slots import Fetched
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import GenerateRequest, ImageSpec
from scanline.model.sampling.particles import checks


class PaintedAlone:
    """The images of requests (of `particles` at most) and the bits of `known` images, each alone in a generator."""

    def __init__(self, model: Transformer, known: Sequence[bytes], particles: int = 1) -> None:
        self.generator = Generator(model, particles, threads=1)
        self.images: dict[tuple[object, ...], bytes] = {}
        self.intervals = {image: self._intervals(np.frombuffer(image, np.uint8)) for image in known}
        self.bits = {image: self.generator.score(np.frombuffer(image, np.uint8)[None])[0].tobytes() for image in known}

    def _intervals(self, image: np.ndarray) -> list[tuple[int, int]]:
        prefill = self.generator.start_prefill(image[None], [len(image)], coded=True)
        self.generator.run_prefill(prefill).wait()
        intervals = prefill.intervals_of(0)
        assert intervals is not None
        return [(start, width) for start, width in intervals.tolist()]

    def code(self, images: Sequence[bytes]) -> bytes:
        """The code of some of the known images, one after the other."""
        return encode(itertools.chain.from_iterable(self.intervals[image] for image in images))

    def alone(self, paint: GenerateRequest, index: int) -> bytes:
        """The bytes of an image of a request."""
        source = paint.source(index)
        known, mask = (b"", b"") if source is None else (paint.known[source], paint.masks[source])
        particles = paint.particles_of(index)
        key = (paint.seed, index, paint.temperature, known, mask, particles)
        if key not in self.images and particles == 1:
            given = (np.frombuffer(known, np.uint8), np.frombuffer(mask, np.bool_)) if known else (None, None)
            canvas = ImageSpec(paint.seed, index, paint.temperature, *given)
            self.generator.place(0, canvas, self.generator.prefill(canvas) if canvas.prefix else None)
            self.generator.advance(self.generator.config.bytes)
            self.images[key] = self.generator.image(0).tobytes()
        elif key not in self.images:
            self.images[key] = by_particles(self.generator, paint, index).images[0].tobytes()
        return self.images[key]


def by_particles(generator: Generator, paint: GenerateRequest, index: int) -> Fetched:
    """An image of a request whose particles are painted from check to check in the first slots of a generator."""
    slots = np.arange(paint.particles_of(index))
    specs = [paint.image(index, particle) for particle in slots.tolist()]
    prefix = generator.prefill(specs[0]) if specs[0].prefix else None
    generator.place_many(slots.tolist(), specs, [prefix] * len(slots))
    position = prefix.position if prefix else generator.config.first
    assert specs[0].mask is not None
    for check in (*checks(specs[0].mask, generator.config), generator.config.bytes):
        generator.start(slots, (check - position) // generator.config.step_bytes).wait()
        position = check
        group = Groups(slots[None], np.array([check]))
        if check < generator.config.bytes:
            generator.resample(group)
        else:
            generator.choose(group)
    return generator.fetch([0]).wait()


@contextmanager
def breaking(generator: Generator, name: str, calls: int) -> Iterator[None]:
    """After so many calls, each one under that name fails."""
    done = itertools.count()

    def broken(*arguments: Any) -> Any:
        if next(done) >= calls:
            raise RuntimeError("It broke.")
        return getattr(type(generator), name)(generator, *arguments)

    setattr(generator, name, broken)
    try:
        yield
    finally:
        delattr(generator, name)
