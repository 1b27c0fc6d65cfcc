"""Memory over position: Scanline's is constant and softmax's grows, from the first call to the last byte."""

import pytest

from scanline.model.bench import baselines
from scanline.model.bench.correctness import make_reference
from scanline.model.bench.memory_over_position import images_that_fit, sample_scanline, sample_softmax
from tests.support import small_models


def test_scanline_is_constant_and_softmax_grows() -> None:
    model = small_models.model(small_models.config())
    scanline = sample_scanline(model, make_reference(model, (4,)), 4, samples=3)
    softmax = sample_softmax(model, 0.0, 4, samples=3)
    assert [sample.position for sample in scanline] == [sample.position for sample in softmax] == [8, 14, 20]
    sizes = {sample.tensor_bytes for sample in scanline}
    assert len(sizes) == 1
    assert sizes.pop() > model.config.state_bytes_per_image + model.config.bytes
    assert softmax[0].tensor_bytes < softmax[1].tensor_bytes < softmax[2].tensor_bytes


def test_softmax_is_given_as_many_images_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_models.config()
    room = 10 * baselines.cache_bytes(config, config.bytes) / baselines.ROOM
    monkeypatch.setattr(baselines, "_available_memory", lambda device: room)
    assert [images_that_fit(config, images, "cpu") for images in (1, 8, 64)] == [1, 8, 8]
