"""The presets: each fits the data set that it names."""

from scanline.model.datasets import of_shape
from scanline.model.training.presets import PRESETS


def test_models_have_the_shape_of_their_data_and_the_papers_sizes() -> None:
    for name, preset in PRESETS.items():
        config = preset.model
        assert of_shape(config.height, config.width, config.channels) == preset.dataset, name
    for name, layers in (("mnist", 8), ("cifar10", 16)):
        config = PRESETS[name].model
        assert (config.layers, config.heads, config.key_width, config.value_width) == (layers, 8, 32, 32)
