"""The presets of `scanline train`."""

from dataclasses import dataclass
from typing import Any

from scanline.model.base.config import ModelConfig
from scanline.model.training.config import TrainingConfig

WINDOWED: dict[str, Any] = {"step": "pixel"}
STROKES: dict[str, Any] = {
    "predicts": "categorical",
    "window_rows": 5,
    "window_columns": 6,
    "waves": 8,
    "wave_rows": 2,
    "wave_columns": 2,
}
PHOTOGRAPHS: dict[str, Any] = {
    "predicts": "pixel_logistics",
    "window_rows": 3,
    "window_columns": 3,
    "window_centred": True,
    "outside": 128,
}
BACKGROUND = 0.08  # of the positions of drawings without paint nearby are computed
PAPER: dict[str, Any] = {
    "optimiser": "adamw",
    "learning_rate": 1e-3,
    "decay": 0.3,
    "average": 0.9995,
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
        ModelConfig(28, 28, 1, 2, 6, 32, 32, 384, **WINDOWED, blocks=3, block_width=384, **STROKES),
        TrainingConfig(updates=20_000, background=BACKGROUND),
    ),
    "cifar10-small": Preset(
        "cifar10",
        ModelConfig(
            32, 32, 3, 3, 5, 32, 32, 640, **WINDOWED, blocks=2, block_width=320, **PHOTOGRAPHS
        ),
        TrainingConfig(updates=20_000, batch=6, flip=True),
    ),
    "cifar10-base": Preset(
        "cifar10",
        ModelConfig(
            32,
            32,
            3,
            8,
            10,
            32,
            32,
            1280,
            **WINDOWED,
            blocks=2,
            block_width=640,
            causal_conv=True,
            **PHOTOGRAPHS,
        ),
        TrainingConfig(
            updates=60_000, batch=32, flip=True, decay=0.4, average=0.999, unlabelled=0.3
        ),
    ),
    "mnist": Preset(
        "mnist",
        ModelConfig(28, 28, 1, 8, 8, 32, 32, 1024),
        TrainingConfig(updates=40_000, batch=64, **PAPER),
    ),
    "cifar10": Preset(
        "cifar10",
        ModelConfig(32, 32, 3, 16, 8, 32, 32, 1024),
        TrainingConfig(updates=60_000, batch=32, flip=True, **PAPER),
    ),
}
