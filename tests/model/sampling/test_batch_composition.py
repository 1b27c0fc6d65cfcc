"""Alone == in a full batch with arrivals and departures, byte for byte, on any number of threads, with every backend
and precision of a CPU."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from tests.support import small_models
from tests.support.engine.batch_composition import Finished, Painter, finished, in_a_batch, painted_alone, watched

SIZES = {"height": 4, "width": 6, "heads": 4, "key_width": 16, "value_width": 16, "feed_forward": 128}
VARIANTS = ["plain", "strokes", "pixels", "waves of pixels"]
RUNS = [("eager", "exact"), ("cpu", "exact"), ("cpu", "int8")]
LARGEST = {"cpu": 1000, "eager": 200}  # slots; the eager backend is slower
SLOW = [("pixels", "eager"), ("strokes", "eager")]
PAINTERS = [
    pytest.param((variant, *run), marks=[pytest.mark.slow] if (variant, run[0]) in SLOW else [])
    for variant in VARIANTS
    for run in RUNS
]
SWEEP = [pytest.param(*case, marks=pytest.mark.slow) for case in [(1, 1), (2, 1), (2, 2), (64, 2), ("largest", 2)]]


@pytest.fixture(scope="module", params=PAINTERS, ids="-".join)
def painter(request: pytest.FixtureRequest) -> Painter:
    variant, backend, precision = request.param
    if backend == "cpu" and not cpu_kernels.available():
        pytest.skip("the cpu kernel was not compiled")
    config = small_models.config(**SIZES, **{"components": 10, **small_models.VARIANTS[variant]})
    return Painter(small_models.model(config), backend, precision)


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """A number of threads, two unless given, for torch's operations too."""
    before, number = torch.get_num_threads(), getattr(request, "param", 2)
    torch.set_num_threads(number)
    yield number
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def alone(painter: Painter) -> list[Finished]:
    return painted_alone(painter, watched(painter))


@pytest.mark.parametrize(("slots", "threads"), [(7, 2), (64, 1), *SWEEP], indirect=["threads"])
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
