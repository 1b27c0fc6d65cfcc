"""The images of an update, mirrored or as they are, and their labels: pure functions of (seed,
update), so that a run can resume."""

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.datasets.split import Images
from scanline.model.training.config import TrainingConfig

# what a stream of random numbers decides
MIRRORED = 1
UNLABELLED = 2
DRAWN = 3


def batch_at(
    images: Images,  # [n, N] uint8
    update: int,
    config: TrainingConfig,
    model: ModelConfig,
) -> torch.Tensor:
    """Return the images [batch, N] uint8 of an update, mirrored as the recipe says."""
    batch = images[_rows(len(images), update, config)]
    if config.flip:
        random = np.random.default_rng([config.seed, MIRRORED, update])
        mirrored = random.random(config.batch) < 0.5
        # a view of the batch
        pixels = batch.reshape(-1, model.height, model.width, model.channels)
        pixels[mirrored] = pixels[mirrored, :, ::-1]
    return torch.from_numpy(batch)


def labels_at(labels: np.ndarray, update: int, config: TrainingConfig) -> torch.Tensor:
    """Return the labels [batch] int64 of the images of an update, given those [n] of all images; a
    share of them, drawn anew for each update, is 0: no class."""
    batch = labels[_rows(len(labels), update, config)]
    random = np.random.default_rng([config.seed, UNLABELLED, update])
    left_out = random.random(config.batch) < config.unlabelled
    return torch.from_numpy(np.where(left_out, 0, batch))


def _rows(count: int, update: int, config: TrainingConfig) -> np.ndarray:
    """Return the rows [batch] of an update among `count` images: an epoch is a permutation of all
    rows, and batches go through one epoch after the other."""
    first = update * config.batch
    ranks = np.arange(first, first + config.batch)
    epochs = ranks // count
    places = ranks % count
    rows = np.empty(config.batch, np.int64)
    for epoch in np.unique(epochs):
        random = np.random.default_rng([config.seed, epoch])
        permutation = random.permutation(count)
        of_epoch = epochs == epoch
        rows[of_epoch] = permutation[places[of_epoch]]
    return rows
