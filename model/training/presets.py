"""The presets of `scanline train`."""

from dataclasses import dataclass

from scanline.model.config import ModelConfig
from scanline.model.training.config import TrainingConfig

WINDOWED = {"step": "pixel", "reads": "window", "blocks": 2, "block_width": 320}
STROKES = {
    "predicts": "categorical",
    "window_rows": 5,
    "window_columns": 6,
    "waves": 8,
    "wave_rows": 2,
    "wave_columns": 2,
}
PHOTOGRAPHS = {
    "predicts": "pixel_logistics",
    "window_rows": 3,
    "window_columns": 3,
    "window_centred": True,
    "outside": 128,
}


@dataclass(frozen=True)
class Preset:
    """A data set, a model and its recipe: `scanline train --preset NAME`."""

    dataset: str
    model: ModelConfig
    training: TrainingConfig


PRESETS = {
    "mnist-small": Preset(
        "mnist",
        ModelConfig(28, 28, 1, 3, 5, 32, 32, 640, **WINDOWED, **STROKES),
        TrainingConfig(updates=5_000, batch=8, optimiser="muon", learning_rate=5e-3, decay=1.0),
    ),
    "cifar10-small": Preset(
        "cifar10",
        ModelConfig(32, 32, 3, 3, 5, 32, 32, 640, **WINDOWED, **PHOTOGRAPHS),
        TrainingConfig(updates=3_600, batch=4, optimiser="muon", learning_rate=5e-3, decay=1.0, flip=True),
    ),
    "mnist": Preset(
        "mnist",
        ModelConfig(28, 28, 1, 8, 8, 32, 32, 1024),
        TrainingConfig(updates=40_000, batch=64, learning_rate=1e-3, average=0.9995),
    ),
    "cifar10": Preset(
        "cifar10",
        ModelConfig(32, 32, 3, 16, 8, 32, 32, 1024),
        TrainingConfig(updates=60_000, batch=32, learning_rate=1e-3, average=0.9995, flip=True),
    ),
}
