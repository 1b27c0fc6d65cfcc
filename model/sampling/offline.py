"""Painting without a server: a request goes into the engine loop, and the loop runs until it is idle.

The bytes are those that a server would return for the same request.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from scanline.model import resources
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Event, Failed, Finished, GenerateRequest, Request

Progress = Callable[[int], None]  # called with the bytes painted so far, known ones included


@dataclass(frozen=True)
class Painted:
    """Finished images, in the order of their indices."""

    images: np.ndarray  # [n, N] uint8
    bits_per_dim: np.ndarray  # [n] float64
    evidence_bits: np.ndarray | None = None  # [n] float64, of completions
    effective_particles: np.ndarray | None = None  # [n] float64, of completions


def paint(
    model: Transformer,
    count: int,
    *,
    seed: int,
    temperature: float = 1.0,
    known: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    particles: int = 1,
    label: int = 0,
    guidance: float = 1.0,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Progress = lambda bytes_painted: None,
) -> Painted:
    """Paint `count` images of the class of a label, guided where guidance is above 1; known [N] uint8 and mask [N] bool
    (True = known) make them completions, of so many particles each."""
    known_images = () if known is None else (known.tobytes(),)
    masks = () if mask is None else (mask.tobytes(),)
    request = GenerateRequest(0, count, seed, temperature, known_images, masks, label, particles, guidance)
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
    (painted,) = paint_requests(
        model, [request], threads=threads, precision=precision, backend=backend, progress=progress
    )
    return painted


def paint_requests(
    model: Transformer,
    requests: Sequence[GenerateRequest],
    *,
    threads: int | None = None,
    precision: str = DEFAULT,
    backend: str | None = None,
    progress: Progress = lambda bytes_painted: None,
) -> list[Painted]:
    """Paint all images of several requests, whose ids differ, at once; RuntimeError where the engine fails on one."""
    length = model.config.bytes
    results = {request.id: _empty(request, length) for request in requests}
    finished = 0
    slots = sum(request.slots for request in requests)
    with loaded_engine(model, slots, threads=threads, precision=precision, backend=backend) as engine:
        for events in run(engine, *requests):
            for event in events:
                if isinstance(event, Finished):
                    _write(results[event.request], event)
                    finished += 1
            in_flight = list(engine.scheduler.assigned)
            progress(finished * length + int(engine.scheduler.positions[in_flight].sum()))
    return [results[request.id] for request in requests]


def _empty(request: GenerateRequest, length: int) -> Painted:
    """Return arrays for a request's images of `length` bytes."""
    evidence, particles = (np.empty(request.n) if request.known else None for _ in range(2))
    return Painted(np.empty((request.n, length), np.uint8), np.empty(request.n), evidence, particles)


def _write(painted: Painted, event: Finished) -> None:
    """Write a finished image where it belongs."""
    painted.images[event.index] = np.frombuffer(event.image, np.uint8)
    painted.bits_per_dim[event.index] = event.bits_per_dim
    if painted.evidence_bits is not None and painted.effective_particles is not None:
        painted.evidence_bits[event.index] = event.evidence_bits
        painted.effective_particles[event.index] = event.effective_particles


@contextmanager
def loaded_engine(
    model: Transformer, slots: int, *, threads: int | None = None, precision: str = DEFAULT, backend: str | None = None
) -> Iterator[Engine]:
    """Yield an engine in this process with so many slots, or as many as are taken to make painting faster (on a GPU not
    measured)."""
    most = 128 * (threads or resources.threads()) if model.device.type == "cpu" else 4096
    generator = Generator(model, min(slots, most), threads, precision, backend)
    try:
        yield Engine(generator)
    finally:
        generator.close()


def run(engine: Engine, *requests: Request) -> Iterator[list[Event]]:
    """Yield the events of each tick until the engine is idle; RuntimeError where it fails on a request."""
    for request in requests:
        engine.accept(request)
    while not engine.idle:
        events = engine.tick()
        for event in events:
            if isinstance(event, Failed):
                raise RuntimeError(event.message)
        yield events
