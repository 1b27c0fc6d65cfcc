"""Painting without a server: a request goes into the engine loop, and the loop runs until it is idle.

The bytes are those that a server would return for the same request.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from scanline.model import resources
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Event, Failed, Finished, GenerateRequest

Progress = Callable[[int], None]  # called with the bytes painted so far, known ones included


@dataclass(frozen=True)
class Painted:
    """Finished images, in the order of their indices."""

    images: np.ndarray  # [n, N] uint8
    bits_per_dim: np.ndarray  # [n] float64


def paint(
    model: Transformer,
    count: int,
    *,
    seed: int,
    temperature: float = 1.0,
    known: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Progress = lambda bytes_painted: None,
) -> Painted:
    """Paint `count` images; known [N] uint8 and mask [N] bool (True = known) make them completions."""
    known_images = () if known is None else (known.tobytes(),)
    masks = () if mask is None else (mask.tobytes(),)
    request = GenerateRequest(0, count, seed, temperature, known_images, masks)
    return paint_request(model, request, precision=precision, backend=backend, progress=progress)


def paint_request(
    model: Transformer,
    request: GenerateRequest,
    *,
    threads: int | None = None,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Progress = lambda bytes_painted: None,
) -> Painted:
    """Paint all images of a request; RuntimeError where the engine fails on it."""
    length = model.config.bytes
    result = Painted(np.empty((request.images, length), np.uint8), np.empty(request.images))
    finished = 0
    with loaded_engine(model, request.images, threads=threads, precision=precision, backend=backend) as engine:
        for events in run(engine, request):
            for event in events:
                if isinstance(event, Finished):
                    result.images[event.index] = np.frombuffer(event.image, np.uint8)
                    result.bits_per_dim[event.index] = event.bits_per_dim
                    finished += 1
            in_flight = list(engine.scheduler.assigned)
            progress(finished * length + int(engine.positions[in_flight].sum()))
    return result


@contextmanager
def loaded_engine(
    model: Transformer, images: int, *, threads: int | None = None, precision: str = DEFAULT, backend: str | None = None
) -> Iterator[Engine]:
    """An engine in this process with enough slots for so many images, or as many as are taken to make painting faster
    (on a GPU not measured)."""
    most = 128 * (threads or resources.threads()) if model.device.type == "cpu" else 4096
    generator = Generator(model, min(images, most), threads, precision, backend)
    try:
        yield Engine(generator)
    finally:
        generator.close()


def run(engine: Engine, request: GenerateRequest) -> Iterator[list[Event]]:
    """The events of each tick until the engine is idle; RuntimeError where it fails on the request."""
    engine.accept(request)
    while not engine.idle:
        events = engine.tick()
        for event in events:
            if isinstance(event, Failed):
                raise RuntimeError(event.message)
        yield events
