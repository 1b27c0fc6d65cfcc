"""What an image in flight costs at its first byte and at its last, in memory and in time: ours the same, softmax more.

"Tensors" are the bytes of all tensors that the program holds for each image. "Process" is what the operating system
has handed over for each image: the growth of resident memory from a program with one tile of images to one with many,
so that weights and what all images share are not counted.
"""

import time
from dataclasses import dataclass

import numpy as np

from scanline.model.bench.correctness import SEED, STEPS, Reference
from scanline.model.bench.machine import durations, synchronise
from scanline.model.bench.memory import give_back, owned, resident
from scanline.model.bench.softmax import Softmax, cache_bytes, too_large
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec

IMAGES = {"cpu": 64, "cuda": 2048}  # in flight
LOOKS = 8


@dataclass(frozen=True)
class Look:
    """After `position` bytes of every image."""

    position: int
    step_ms_median: float  # of all images together
    tensor_bytes: float  # of one image
    process_bytes: float | None  # of one image; None where the system does not say


@dataclass(frozen=True)
class Looks:
    """One program from start to end."""

    images: int  # in flight
    looks: list[Look]


def ours(model: Transformer, reference: Reference, images: int, looks: int = LOOKS, precision: str = DEFAULT) -> Looks:
    """Paints `images` at once from start to end."""
    device, stops = model.device.type, _stops(model.config, looks)
    few, few_rows = _shared(model, precision)
    before = _settled(device)
    generator = _started(model, images, precision)
    rows = _rows(generator)

    def look(stop: int) -> Look:
        times, now = _paint_until(generator, stop, device), resident(device)
        process = None if now is None or rows == few_rows else (now - before - few) / (rows - few_rows)
        return Look(stop, 1e3 * float(np.median(times)), owned(generator) / rows, process)

    try:
        look(stops[min(1, len(stops) - 1)])  # what is loaded and taken at first use is not the images'
        _start(generator)
        found = [look(stop) for stop in stops]
        reference.hold(generator)
    finally:
        generator.close()
    return Looks(images, found)


def softmax(model: Transformer, seconds: float, images: int, looks: int = LOOKS) -> Looks:
    """At each look a cache of just that many positions, the kindest there is, and the step that fills the last."""
    device, found = model.device.type, []
    for stop in _stops(model.config, looks):
        before = _settled(device)
        program = Softmax(model, images, positions=stop)
        times = durations(lambda: program.paint(stop - 1), seconds / looks, device)  # noqa: B023
        now = resident(device)
        process = None if now is None else (now - before) / images
        tensors = float(cache_bytes(model.config, stop) + model.config.bytes)
        found.append(Look(stop, 1e3 * float(np.median(times)), tensors, process))
        program.close()
    return Looks(images, found)


def images_that_fit(config: ModelConfig, images: int, device: str) -> int:
    """`images`, halved until the softmax caches of so many can be held."""
    while images > 1 and too_large(config, images, device):
        images //= 2
    return images


def _shared(model: Transformer, precision: str) -> tuple[int, int]:
    """Resident bytes that a generator of one tile takes, and its rows."""
    device = model.device.type
    before = _settled(device)
    generator = _started(model, 1, precision)
    generator.advance(STEPS)
    try:
        return (resident(device) or 0) - before, _rows(generator)
    finally:
        generator.close()


def _started(model: Transformer, images: int, precision: str) -> Generator:
    generator = Generator(model, images, precision=precision)
    _start(generator)
    return generator


def _start(generator: Generator) -> None:
    for slot in range(generator.slots):
        generator.place(slot, ImageSpec(SEED, slot))


def _rows(generator: Generator) -> int:
    """Seats that a generator takes memory for."""
    tile = generator.backend.rows
    return -(-generator.slots // tile) * tile


def _settled(device: str) -> int:
    """Resident bytes once what was freed has been given back."""
    give_back()
    return resident(device) or 0


def _stops(config: ModelConfig, looks: int) -> list[int]:
    """Positions to look at, from those of the first call to the last."""
    return sorted(set(np.linspace(min(config.first + STEPS, config.bytes), config.bytes, looks).astype(int).tolist()))


def _paint_until(generator: Generator, stop: int, device: str) -> list[float]:
    """Paints every image up to byte `stop`; seconds of a step, one for each call."""
    times = []
    while (room := stop - int(generator.positions().min())) > 0:
        steps = min(room, STEPS)
        synchronise(device)
        start = time.perf_counter()
        generator.advance(steps)
        synchronise(device)
        times.append((time.perf_counter() - start) / steps)
    return times
