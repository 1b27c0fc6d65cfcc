"""A reused slot carries no trace: whatever a freed slot holds, NaN included, no later image is affected by it."""

import numpy as np
import pytest

from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models


def poison(generator: Generator, slot: int) -> None:
    """What no image may ever read: NaN as state, noise as bytes."""
    generator.pool.state.s[:, slot] = float("nan")
    generator.pool.state.z[:, slot] = float("nan")
    generator.pool.images[slot] = 173


def painted(generator: Generator, slot: int, canvas: ImageSpec) -> tuple[list[int], float]:
    generator.place(slot, canvas, generator.prefill(canvas) if canvas.prefix else None)
    generator.advance(generator.config.bytes)
    return generator.image(slot).tolist(), generator.bits_per_dim(slot)


KNOWN = np.arange(20, dtype=np.uint8)
SPECS = {
    "free": ImageSpec(1, 2),
    "with a known front": ImageSpec(1, 2, known=KNOWN, mask=KNOWN < 8),
    "with known bytes": ImageSpec(1, 2, known=KNOWN, mask=KNOWN % 4 == 2),
}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("variant", ["plain", "histogram"])
def test_images_in_a_poisoned_slot_and_beside_it_are_those_of_a_fresh_pool(variant: str, kind: str) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    fresh, used = Generator(model, 2), Generator(model, 2)
    used.place(0, ImageSpec(9, 9, 0.3, np.zeros(20, np.uint8), np.ones(20, bool)))
    used.advance(5)
    used.clear(0)
    poison(used, 0)
    for slot in (1, 0):
        assert painted(used, slot, SPECS[kind]) == painted(fresh, slot, SPECS[kind])
    fresh.close()
    used.close()


def test_a_cleared_slot_is_at_its_end_and_stays_there() -> None:
    model = small_models.model(small_models.config())
    generator = Generator(model, 2)
    generator.place(0, ImageSpec(1, 1))
    generator.advance(4)
    assert generator.positions().tolist() == [4, 20]
    generator.clear(0)
    generator.advance(4)
    assert generator.positions().tolist() == [20, 20]
    generator.close()
