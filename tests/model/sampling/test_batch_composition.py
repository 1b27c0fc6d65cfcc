"""Alone == in a full batch with arrivals and departures, byte for byte, on any number of threads, with every backend
and precision of a CPU."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models

SIZES = {"height": 6, "width": 6, "heads": 4, "key_width": 16, "value_width": 16, "feed_forward": 128}
VARIANTS = ["plain", "strokes", "pixels", "waves of pixels"]
RUNS = [("eager", "exact"), ("cpu", "exact"), ("cpu", "int8")]
STRANGER = 999  # image index of the other images in a batch
LARGEST = {"cpu": 1000, "eager": 200}  # slots; the eager backend is slower
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


@pytest.fixture(scope="module", params=[(variant, *run) for variant in VARIANTS for run in RUNS], ids="-".join)
def painter(request: pytest.FixtureRequest) -> Painter:
    variant, backend, precision = request.param
    if backend == "cpu" and not cpu_kernels.available():
        pytest.skip("the cpu kernel was not compiled")
    config = small_models.config(**SIZES, **{"components": 10, **small_models.VARIANTS[variant]})
    return Painter(small_models.model(config), backend, precision)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """A number of threads, for torch's operations too."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def watched(painter: Painter) -> list[ImageSpec]:
    """Images of every kind: free, tempered, with a known front, with known bytes in the midst, of a large seed.

    In pixels of three bytes, the front ends within a pixel and the known bytes are green, or of each pixel another.
    """
    known, place = small_models.images(painter.model.config, 1)[0], np.arange(painter.length)
    front, midst, mixed = place < 16, place % 3 == 1, place % 2 == 1
    return [
        ImageSpec(1, 0),
        ImageSpec(1, 1, temperature=0.5),
        ImageSpec(2, 0, known=known, mask=front),
        ImageSpec(2, 1, temperature=1.7, known=known, mask=midst),
        ImageSpec(2, 2, known=known, mask=mixed),
        ImageSpec(2**63 - 1, 12_345),
    ]


def start(generator: Generator, slot: int, canvas: ImageSpec) -> None:
    generator.place(slot, canvas, generator.prefill(canvas) if canvas.prefix else None)


def finished(generator: Generator, slot: int) -> Finished:
    return generator.image(slot).tolist(), generator.bits_per_dim(slot)


@pytest.fixture(scope="module")
def alone(painter: Painter) -> list[Finished]:
    result = []
    for canvas in watched(painter):
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


@pytest.mark.parametrize("slots", [1, 2, 7, 64, "largest"])
def test_alone_is_in_a_batch(painter: Painter, alone: list[Finished], slots: int | str, threads: int) -> None:
    generator = painter.generator(slots if isinstance(slots, int) else LARGEST[painter.backend], threads)
    together = in_a_batch(generator, watched(painter))
    generator.close()
    assert together == alone
    assert torch.get_num_threads() == threads


def test_every_slot_paints_the_same_and_known_bytes_painted_so_anyway_change_nothing(
    painter: Painter, alone: list[Finished], threads: int
) -> None:
    generator = painter.generator(70, threads)
    free = watched(painter)[0]
    known = replace(free, known=np.array(alone[0][0], np.uint8), mask=np.arange(painter.length) % 2 == 1)
    for slot in range(70):
        generator.place(slot, known if slot == 37 else free)
    generator.advance(painter.model.config.steps)
    everywhere = [finished(generator, slot) for slot in range(70)]
    generator.close()
    assert everywhere == [alone[0]] * 70
