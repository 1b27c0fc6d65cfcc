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


def canvases(length: int) -> dict[str, ImageSpec]:
    known = np.arange(length, dtype=np.uint8)
    return {
        "free": ImageSpec(1, 2),
        "with a known front": ImageSpec(1, 2, known=known, mask=np.arange(length) < 8),
        "with known bytes": ImageSpec(1, 2, known=known, mask=np.arange(length) % 4 == 2),
    }


@pytest.mark.parametrize("kind", ["free", "with a known front", "with known bytes"])
@pytest.mark.parametrize("variant", ["plain", "histogram"])
def test_an_image_in_a_poisoned_slot_is_the_image_of_a_fresh_one(variant: str, kind: str) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    canvas = canvases(model.config.bytes)[kind]
    fresh, used = Generator(model, 1), Generator(model, 1)
    used.place(0, ImageSpec(9, 9, 0.3, np.zeros(model.config.bytes, np.uint8), np.ones(model.config.bytes, bool)))
    used.advance(5)
    used.clear(0)
    poison(used, 0)
    assert painted(used, 0, canvas) == painted(fresh, 0, canvas)
    fresh.close()
    used.close()


def test_neighbours_of_a_poisoned_slot_do_not_notice() -> None:
    model = small_models.model(small_models.config())
    fresh, used = Generator(model, 2), Generator(model, 2)
    used.place(0, ImageSpec(5, 5))
    used.advance(3)
    used.clear(0)
    poison(used, 0)
    assert painted(used, 1, ImageSpec(1, 2)) == painted(fresh, 1, ImageSpec(1, 2))
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
