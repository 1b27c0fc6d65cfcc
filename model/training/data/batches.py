"""The images of an update, mirrored, re-rendered or as they are, and their labels: pure functions
of (seed, update, rate), so that a run can resume."""

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.datasets.split import Images
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.augmentation import MIN_RATE, redrawn

# what a stream of random numbers decides
MIRRORED = 1
UNLABELLED = 2
DRAWN = 3
REDRAWN = 4
OTHER = 5


def batch_at(
    images: Images,
    update: int,
    config: TrainingConfig,
    model: ModelConfig,
    rate: float | None = None,
) -> torch.Tensor:
    """Return the images [batch, N] uint8 of an update, mirrored or re-rendered as the recipe says.

    rate: of learning, by default the recipe's highest; digits are
    re-rendered while it is above a share of that.
    """
    batch = images[_chosen(len(images), update, config)]
    if config.flip:
        mirrored = np.random.default_rng([config.seed, MIRRORED, update]).random(config.batch) < 0.5
        pixels = batch.reshape(-1, model.height, model.width, model.channels)
        pixels[mirrored] = pixels[mirrored, :, ::-1]
    if config.redrawn and (rate is None or rate >= MIN_RATE * config.learning_rate):
        random = np.random.default_rng([config.seed, REDRAWN, update])
        for chosen in np.flatnonzero(random.random(config.batch) < config.redrawn):
            batch[chosen] = redrawn(
                batch[chosen].reshape(model.height, model.width), random
            ).ravel()
    return torch.from_numpy(batch)


def labels_at(
    labels: np.ndarray, update: int, config: TrainingConfig, classes: int
) -> torch.Tensor:
    """Return the labels [batch] int64 of the images of an update, given those [n] of all images; a
    share of them, drawn anew for each update, is 0: no class. With `contrast`, [batch, 2]: each
    image's and one of another class."""
    batch = labels[_chosen(len(labels), update, config)]
    left_out = (
        np.random.default_rng([config.seed, UNLABELLED, update]).random(config.batch)
        < config.unlabelled
    )
    kept = np.where(left_out, 0, batch)
    if not config.contrast:
        return torch.from_numpy(kept)
    further = np.random.default_rng([config.seed, OTHER, update]).integers(1, classes, config.batch)
    return torch.from_numpy(np.stack((kept, (batch - 1 + further) % classes + 1), axis=1))


def _chosen(count: int, update: int, config: TrainingConfig) -> np.ndarray:
    """Return the rows [batch] of an update among `count` images: an epoch is a permutation of all
    rows, and batches go through one epoch after the other."""
    ranks = np.arange(update * config.batch, (update + 1) * config.batch)
    epochs = ranks // count
    places = ranks % count
    chosen = np.empty(config.batch, np.int64)
    for epoch in np.unique(epochs):
        permutation = np.random.default_rng([config.seed, epoch]).permutation(count)
        chosen[epochs == epoch] = permutation[places[epochs == epoch]]
    return chosen
