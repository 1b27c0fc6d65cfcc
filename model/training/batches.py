"""Which images an update sees: a pure function of (seed, update), so that a resumed run sees the same."""

import numpy as np
import torch

from scanline.model.config import ModelConfig
from scanline.model.training.config import TrainingConfig


def batch_at(images: np.ndarray, update: int, config: TrainingConfig, model: ModelConfig) -> torch.Tensor:
    """The images [batch, N] uint8 of an update: epochs are permutations, one after the other."""
    ranks = np.arange(update * config.batch, (update + 1) * config.batch)
    epochs, places = ranks // len(images), ranks % len(images)
    chosen = np.empty(config.batch, np.int64)
    for epoch in np.unique(epochs):
        permutation = np.random.default_rng([config.seed, epoch]).permutation(len(images))
        chosen[epochs == epoch] = permutation[places[epochs == epoch]]
    batch = images[chosen]
    if config.flip:
        mirrored = np.random.default_rng([config.seed, 1, update]).random(config.batch) < 0.5
        pixels = batch.reshape(-1, model.height, model.width, model.channels)
        pixels[mirrored] = pixels[mirrored, :, ::-1]
    return torch.from_numpy(batch)
