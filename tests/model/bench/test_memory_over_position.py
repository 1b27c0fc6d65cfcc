"""Cost over position: ours is flat in tensors, softmax grows, both from the first call to the last byte."""

from scanline.model.bench import memory_over_position
from scanline.model.bench.correctness import reference
from tests.support import small_models


def test_ours_is_flat_and_softmax_grows() -> None:
    model = small_models.model(small_models.config())
    ours = memory_over_position.ours(model, reference(model, (4,)), 4, looks=3)
    softmax = memory_over_position.softmax(model, 0.0, 4, looks=3)
    assert [look.position for look in ours.looks] == [look.position for look in softmax.looks] == [8, 14, 20]
    sizes = {look.tensor_bytes for look in ours.looks}
    assert len(sizes) == 1
    assert sizes.pop() > model.config.state_bytes_per_image + model.config.bytes
    assert softmax.looks[0].tensor_bytes < softmax.looks[1].tensor_bytes < softmax.looks[2].tensor_bytes


def test_softmax_takes_as_many_images_as_fit() -> None:
    config = small_models.config()
    assert memory_over_position.images_that_fit(config, 64, "cpu") == 64
    assert memory_over_position.images_that_fit(config, 2**50, "cpu") < 2**50
