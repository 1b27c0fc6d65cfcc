"""Batches by the numbers of their updates. Those of a GPU, which trains on digits about as fast as
one process prepares them, are prepared by several."""

from collections.abc import Iterator
from itertools import count

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from scanline.model.base.config import ModelConfig
from scanline.model.datasets.split import Images
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.batches import batch_at, labels_at
from scanline.model.training.data.positions import Positions, PositionSampler

AHEAD = 4  # batches that each process prepares before they are needed

# images, their labels, the positions to compute
Batch = tuple[torch.Tensor, torch.Tensor | None, Positions | None]


class Batches(Dataset[Batch]):
    """What the updates of a run train on: a function of seed and update."""

    def __init__(
        self, images: Images, labels: np.ndarray | None, config: TrainingConfig, model: ModelConfig
    ) -> None:
        """images: [n, N] uint8; labels: [n] int64, or None."""
        self.images = images
        self.labels = labels
        self.config = config
        self.model = model
        self.sampler = PositionSampler(images, config, model)

    def __getitem__(self, number: int) -> Batch:
        batch = batch_at(self.images, number, self.config, self.model)
        labels = None
        if self.labels is not None:
            labels = labels_at(self.labels, number, self.config)
        return batch, labels, self.sampler.at(batch, number)

    def prepared(self, first: int, processes: int) -> Iterator[Batch]:
        """Yield the batches from number `first` on, which are prepared ahead."""
        yield from DataLoader(
            self,
            batch_size=None,
            sampler=count(first),
            num_workers=processes,
            prefetch_factor=AHEAD,
        )
