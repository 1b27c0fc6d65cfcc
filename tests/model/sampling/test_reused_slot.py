"""A reused slot carries no trace: whatever a freed slot holds, NaN included, no later image is affected by it."""

import numpy as np
import pytest

from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from scanline.model.state import NUMBERS
from tests.support import small_models


def poison(generator: Generator, slot: int) -> None:
    """What no image may ever read: NaN as state, noise as bytes."""
    for name in NUMBERS:
        getattr(generator.pool.state, name)[:, slot] = float("nan")
    generator.pool.images[slot] = 173


def painted(generator: Generator, slot: int, canvas: ImageSpec) -> tuple[list[int], float]:
    generator.place(slot, canvas, generator.prefill(canvas) if canvas.prefix else None)
    generator.advance(generator.config.steps)
    return generator.image(slot).tolist(), generator.bits_per_dim(slot)


SPECS = {  # of images of so many bytes
    "free": lambda n: ImageSpec(1, 2),
    "with a known prefix": lambda n: ImageSpec(1, 2, known=np.arange(n, dtype=np.uint8), mask=np.arange(n) < 8),
    "with known bytes": lambda n: ImageSpec(1, 2, known=np.arange(n, dtype=np.uint8), mask=np.arange(n) % 4 == 2),
}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("variant", ["plain", "histogram", "strokes", "waves of pixels"])
def test_images_in_a_poisoned_slot_and_beside_it_are_those_of_a_fresh_pool(variant: str, kind: str) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    fresh, used = Generator(model, 2), Generator(model, 2)
    length = model.config.bytes
    used.place(0, ImageSpec(9, 9, 0.3, np.zeros(length, np.uint8), np.ones(length, bool)))
    used.advance(5)
    used.clear([0])
    poison(used, 0)
    for slot in (1, 0):
        spec = SPECS[kind](length)
        assert painted(used, slot, spec) == painted(fresh, slot, spec)
    fresh.close()
    used.close()


def test_a_cleared_slot_is_at_its_end_and_stays_there() -> None:
    model = small_models.model(small_models.config())
    generator = Generator(model, 2)
    generator.place(0, ImageSpec(1, 1))
    generator.advance(4)
    assert generator.positions().tolist() == [4, 20]
    generator.clear([0])
    generator.advance(4)
    assert generator.positions().tolist() == [20, 20]
    generator.close()
