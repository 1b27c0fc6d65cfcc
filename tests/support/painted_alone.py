"""Images painted alone, each once, and generators that break: what an engine's events are held to."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import GenerateRequest, ImageSpec


class PaintedAlone:
    """The images of requests and the bits of `known` images, each alone in a generator."""

    def __init__(self, model: Transformer, known: Sequence[bytes]) -> None:
        self.generator = Generator(model, 1, threads=1)
        self.images: dict[tuple[object, ...], bytes] = {}
        self.bits = {image: self.generator.score(np.frombuffer(image, np.uint8)[None])[0].tobytes() for image in known}

    def alone(self, paint: GenerateRequest, index: int) -> bytes:
        """The bytes of an image of a request."""
        source = paint.source(index)
        known, mask = (b"", b"") if source is None else (paint.known[source], paint.masks[source])
        key = (paint.seed, index, paint.temperature, known, mask)
        if key not in self.images:
            given = (np.frombuffer(known, np.uint8), np.frombuffer(mask, np.bool_)) if known else (None, None)
            canvas = ImageSpec(paint.seed, index, paint.temperature, *given)
            self.generator.place(0, canvas, self.generator.prefill(canvas) if canvas.prefix else None)
            self.generator.advance(self.generator.config.bytes)
            self.images[key] = self.generator.image(0).tobytes()
        return self.images[key]


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
