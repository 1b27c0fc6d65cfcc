"""The distribution of a step's bytes that a network predicts, from `kernels`."""

from scanline.kernels.categorical import Categorical
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.model.base.config import ModelConfig

Distribution = Categorical | PixelLogistics


def distribution(config: ModelConfig) -> Distribution:
    """Return the distribution that a model of this configuration predicts."""
    if config.predicts == "categorical":
        return Categorical()
    return PixelLogistics(config.components, config.step_bytes, config.scale)
