"""A prefix: the known bytes before the first unknown one, and prefilled the same as forced."""

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
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
