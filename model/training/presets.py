"""The presets of `scanline train`."""

from dataclasses import dataclass

from scanline.model.config import ModelConfig
from scanline.model.training.config import TrainingConfig

# distances, besides 1, of the earlier bytes that the embedding reads: to the left, and in the row above
MNIST_NEIGHBOURS = (2, 27, 28, 29)
CIFAR10_NEIGHBOURS = (2, 3, 93, 96, 99)


@dataclass(frozen=True)
class Preset:
    """A data set, a model and its recipe: `scanline train --preset NAME`."""

    dataset: str
    model: ModelConfig
    training: TrainingConfig


PRESETS = {
    "mnist-small": Preset(
        "mnist",
        ModelConfig(28, 28, 1, 6, 4, 32, 32, 512, neighbours=MNIST_NEIGHBOURS),
        TrainingConfig(updates=5_000, batch=8, optimiser="muon", learning_rate=5e-3, decay=1.0),
    ),
    "cifar10-small": Preset(
        "cifar10",
        ModelConfig(32, 32, 3, 4, 4, 32, 32, 512, neighbours=CIFAR10_NEIGHBOURS, anchors=True),
        TrainingConfig(updates=3_600, batch=4, optimiser="muon", learning_rate=5e-3, decay=1.0, flip=True),
    ),
    "mnist": Preset(
        "mnist",
        ModelConfig(28, 28, 1, 8, 8, 32, 32, 1024, neighbours=MNIST_NEIGHBOURS),
        TrainingConfig(updates=40_000, batch=64, learning_rate=1e-3, average=0.9995),
    ),
    "cifar10": Preset(
        "cifar10",
        ModelConfig(32, 32, 3, 16, 8, 32, 32, 1024, neighbours=CIFAR10_NEIGHBOURS, anchors=True),
        TrainingConfig(updates=60_000, batch=32, learning_rate=1e-3, average=0.9995, flip=True),
    ),
}
