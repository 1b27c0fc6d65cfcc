"""The presets: each fits the data set that it names."""

import pytest

from scanline.model.datasets import of_shape
from scanline.model.training.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_the_model_has_the_shape_of_its_data(name: str) -> None:
    config = PRESETS[name].model
    assert of_shape(config.height, config.width, config.channels) == PRESETS[name].dataset


@pytest.mark.parametrize(("name", "layers"), [("mnist", 8), ("cifar10", 16)])
def test_the_paper_sizes(name: str, layers: int) -> None:
    config = PRESETS[name].model
    assert (config.layers, config.heads, config.key_width, config.value_width) == (layers, 8, 32, 32)
