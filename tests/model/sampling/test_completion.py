"""Completions: known bytes come back byte for byte, and a prefilled prefix is the same as a forced one."""

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.close import assert_close

BACKENDS = ["cpu", "eager"] if cpu_kernels.available() else ["eager"]
VARIANTS = ["plain", "histogram", "authors", "strokes", "pixels"]
MASKS = {
    "nothing": lambda n: np.zeros(n, bool),
    "prefix": lambda n: np.arange(n) < n // 2,
    "end": lambda n: np.arange(n) >= n // 2,
    "every third": lambda n: np.arange(n) % 3 == 0,
    "all but the last": lambda n: np.arange(n) < n - 1,
    "all": lambda n: np.ones(n, bool),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_known_bytes_come_back_and_others_are_painted_anew_for_every_index(variant: str, mask: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    known, where = small_models.images(config, 1)[0], MASKS[mask](config.bytes)
    images = paint(small_models.model(config), 3, seed=1, known=known, mask=where).images
    np.testing.assert_array_equal(images[:, where], np.broadcast_to(known[where], (3, where.sum())))
    if (~where).sum() > 1:
        assert len(np.unique(images[:, ~where], axis=0)) == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("prefix", [1, 9, 20])
@pytest.mark.parametrize("variant", VARIANTS)
def test_prefill_is_forced_stepping_up_to_rounding(variant: str, prefix: int, backend: str) -> None:
    """Bit for bit with the native kernel, which reads as it steps."""
    config = small_models.config(**small_models.VARIANTS[variant])
    prefix = -(-prefix // config.step_bytes) * config.step_bytes
    canvas = ImageSpec(1, 2, known=small_models.images(config, 1)[0], mask=np.arange(config.bytes) < prefix)
    generator = Generator(small_models.model(config), 2, backend=backend)
    generator.place(0, canvas, generator.prefill(canvas))
    generator.clear([0])
    generator.place(1, canvas)
    generator.advance((prefix - config.first) // config.step_bytes)
    generator.place(0, canvas, generator.prefill(canvas))
    assert generator.positions().tolist() == [prefix, prefix]
    bits = [torch.tensor(generator.bits_per_dim(slot)) for slot in (0, 1)]
    generator.close()
    assert_close("bits", bits[1], bits[0])
    if prefix > config.first:
        assert_close("s", generator.pool.state.s[:, 1], generator.pool.state.s[:, 0])
        assert_close("z", generator.pool.state.z[:, 1], generator.pool.state.z[:, 0])
        if backend == "cpu":
            assert torch.equal(generator.pool.state.s[:, 1], generator.pool.state.s[:, 0])


def test_prefix_is_the_known_bytes_before_the_first_unknown_one() -> None:
    for mask, prefix in {"nothing": 0, "prefix": 10, "end": 0, "every third": 1, "all": 20}.items():
        assert ImageSpec(0, 0, known=np.zeros(20, np.uint8), mask=MASKS[mask](20)).prefix == prefix, mask
