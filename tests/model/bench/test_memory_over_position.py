"""Memory over position: it is constant from the first call to the last byte."""

import pytest

from scanline.model.bench.correctness import make_reference
from scanline.model.bench.memory_over_position import sample_scanline
from tests.support import small_models


@pytest.mark.parametrize(("variant", "positions"), [("plain", [8, 14, 20]), ("pixels", [24, 42, 60])])
def test_an_image_takes_as_much_memory_at_every_position(variant: str, positions: list[int]) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    samples = sample_scanline(model, make_reference(model, (4,)), 4, samples=3)
    assert [sample.position for sample in samples] == positions
    sizes = {sample.tensor_bytes for sample in samples}
    assert len(sizes) == 1
    assert sizes.pop() > model.config.state_bytes_per_image + model.config.bytes
