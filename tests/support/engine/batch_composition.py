"""Images of every kind painted alone, and in a batch with arrivals and departures, with any backend of a generator."""

from dataclasses import dataclass

import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models

STRANGER = 999  # image index of the other images in a batch
Finished = tuple[list[int], float]  # bytes, and bits per dimension, which show a difference in any last bit


@dataclass(frozen=True)
class Painter:
    """A model and how it is run."""

    model: Transformer
    backend: str
    precision: str

    @property
    def length(self) -> int:
        return self.model.config.bytes

    def generator(self, slots: int, threads: int | None = None) -> Generator:
        return Generator(self.model, slots, threads, self.precision, self.backend)


def watched(painter: Painter) -> list[ImageSpec]:
    """Images of every kind: free, tempered, with a known prefix, with known bytes in the midst, of a large seed.

    In pixels of three bytes, the prefix ends within a pixel and the known bytes are green, or of each pixel another.
    """
    known, place = small_models.images(painter.model.config, 1)[0], np.arange(painter.length)
    prefix, midst, mixed = place < min(16, painter.length // 2), place % 3 == 1, place % 2 == 1
    return [
        ImageSpec(1, 0),
        ImageSpec(1, 1, temperature=0.5),
        ImageSpec(2, 0, known=known, mask=prefix),
        ImageSpec(2, 1, temperature=1.7, known=known, mask=midst),
        ImageSpec(2, 2, known=known, mask=mixed),
        ImageSpec(2**63 - 1, 12_345),
    ]


def start(generator: Generator, slot: int, canvas: ImageSpec) -> None:
    generator.place(slot, canvas, generator.prefill(canvas) if canvas.prefix else None)


def finished(generator: Generator, slot: int) -> Finished:
    return generator.image(slot).tolist(), generator.bits_per_dim(slot)


def painted_alone(painter: Painter, canvases: list[ImageSpec]) -> list[Finished]:
    """Each image in a generator of its own."""
    result = []
    for canvas in canvases:
        generator = painter.generator(slots=1, threads=1)
        start(generator, 0, canvas)
        generator.advance(painter.model.config.steps)
        result.append(finished(generator, 0))
        generator.close()
    return result


def in_a_batch(generator: Generator, canvases: list[ImageSpec]) -> list[Finished]:
    """Paints `canvases` among other images, which arrive at any time and of which some leave before their end."""
    rng = np.random.default_rng(generator.slots)
    seeds = rng.integers(0, 2**62, generator.slots + 3).tolist()
    strangers = [ImageSpec(seed, STRANGER, temperature=1.2) for seed in seeds]
    queue = [*canvases, *strangers]
    rng.shuffle(queue)
    running: dict[int, ImageSpec] = {}
    result: dict[tuple[int, int], Finished] = {}
    while len(result) < len(canvases):
        for slot in rng.permutation(generator.slots).tolist():
            if queue and slot not in running and rng.random() < 0.7:
                running[slot] = queue.pop()
                start(generator, slot, running[slot])
        generator.advance(int(rng.integers(1, 9)))
        positions = generator.positions()
        for slot, canvas in list(running.items()):
            done, stranger = positions[slot] == generator.config.bytes, canvas.index == STRANGER
            if done and not stranger:
                result[canvas.seed, canvas.index] = finished(generator, slot)
            if stranger and rng.random() < 0.1:
                generator.clear([slot])
                done = True
            if done:
                del running[slot]
    return [result[canvas.seed, canvas.index] for canvas in canvases]
