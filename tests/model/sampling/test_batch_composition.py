"""Alone == in a full batch with arrivals and departures, byte for byte, on any number of threads, in every way of
running a network and at every precision."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.network.transformer import Transformer
from scanline.model.precision import PRECISIONS
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models

CONFIG = small_models.config(
    height=6, width=6, heads=4, key_width=16, value_width=16, feed_forward=128, components=10, neighbours=(2, 6, 7)
)
LENGTH = CONFIG.bytes
STRANGER = 999  # their image index
Finished = tuple[list[int], float]  # bytes, and bits per dimension, which show a difference in any last bit


@dataclass(frozen=True)
class Painter:
    """A model and how it is run."""

    model: Transformer
    backend: str
    precision: str

    def generator(self, slots: int, threads: int | None = None) -> Generator:
        return Generator(self.model, slots, threads, self.precision, self.backend)


@pytest.fixture(scope="module", params=[("eager", "exact"), *(("cpu", name) for name in PRECISIONS)], ids="-".join)
def painter(request: pytest.FixtureRequest) -> Painter:
    backend, precision = request.param
    if backend == "cpu" and not cpu_kernels.available():
        pytest.skip("the native step was not compiled")
    if precision.startswith("int8") and cpu_kernels.instruction_sets()[0] not in cpu_kernels.INT8_INSTRUCTION_SETS:
        pytest.skip("this processor lacks AVX-512 VNNI")
    return Painter(small_models.model(CONFIG), backend, precision)


@pytest.fixture(autouse=True)
def threads_of_the_caller() -> Iterator[None]:
    """Not one, so that tiles must see to their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def watched() -> list[ImageSpec]:
    """Images of every kind: free, tempered, with a known front, with known bytes in the midst, of a large seed."""
    known = small_models.images(CONFIG, 1)[0]
    front, midst = np.arange(LENGTH) < 15, np.arange(LENGTH) % 3 == 1
    return [
        ImageSpec(1, 0),
        ImageSpec(1, 1, temperature=0.5),
        ImageSpec(2, 0, known=known, mask=front),
        ImageSpec(2, 1, temperature=1.7, known=known, mask=midst),
        ImageSpec(2**63 - 1, 12_345),
    ]


def start(generator: Generator, slot: int, canvas: ImageSpec) -> None:
    generator.place(slot, canvas, generator.prefill(canvas) if canvas.prefix else None)


def finished(generator: Generator, slot: int) -> Finished:
    return generator.image(slot).tolist(), generator.bits_per_dim(slot)


@pytest.fixture(scope="module")
def alone(painter: Painter) -> list[Finished]:
    result = []
    for canvas in watched():
        generator = painter.generator(slots=1, threads=1)
        start(generator, 0, canvas)
        generator.advance(LENGTH)
        result.append(finished(generator, 0))
        generator.close()
    return result


def in_company(generator: Generator, canvases: list[ImageSpec]) -> list[Finished]:
    """Paints `canvases` among strangers who come at any time and of whom some go before their end."""
    rng = np.random.default_rng(generator.slots)
    strangers = [
        ImageSpec(int(seed), STRANGER, temperature=1.2) for seed in rng.integers(0, 2**62, generator.slots + 3)
    ]
    queue = [*canvases, *strangers]
    rng.shuffle(queue)
    seated: dict[int, ImageSpec] = {}
    result: dict[tuple[int, int], Finished] = {}
    while len(result) < len(canvases):
        for slot in rng.permutation(generator.slots).tolist():
            if queue and slot not in seated and rng.random() < 0.7:
                seated[slot] = queue.pop()
                start(generator, slot, seated[slot])
        generator.advance(int(rng.integers(1, 9)))
        positions = generator.positions()
        for slot, canvas in list(seated.items()):
            done, stranger = positions[slot] == LENGTH, canvas.index == STRANGER
            if done and not stranger:
                result[canvas.seed, canvas.index] = finished(generator, slot)
            if stranger and rng.random() < 0.1:
                generator.clear(slot)
                done = True
            if done:
                del seated[slot]
    return [result[canvas.seed, canvas.index] for canvas in canvases]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("slots", [1, 2, 7, 64, 1000])
def test_alone_is_in_company(painter: Painter, alone: list[Finished], slots: int, threads: int) -> None:
    generator = painter.generator(slots if painter.backend == "cpu" else min(slots, 200), threads)
    together = in_company(generator, watched())
    generator.close()
    assert together == alone


def test_every_slot_paints_the_same(painter: Painter, alone: list[Finished]) -> None:
    generator = painter.generator(slots=70)
    for slot in range(70):
        generator.place(slot, watched()[0])
    generator.advance(LENGTH)
    everywhere = [finished(generator, slot) for slot in range(70)]
    generator.close()
    assert everywhere == [alone[0]] * 70


def test_known_bytes_that_were_painted_so_anyway_change_nothing(painter: Painter, alone: list[Finished]) -> None:
    painted, bits = alone[0]
    canvas = replace(watched()[0], known=np.array(painted, np.uint8), mask=np.arange(LENGTH) % 2 == 1)
    generator = painter.generator(slots=1)
    generator.place(0, canvas)
    generator.advance(LENGTH)
    assert finished(generator, 0) == (painted, bits)
    generator.close()
