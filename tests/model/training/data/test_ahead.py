"""Batches that other processes prepare are those that this one would make."""

from itertools import islice

import numpy as np
import torch

from scanline.model.training import TrainingConfig
from scanline.model.training.data.ahead import Batch, Batches
from tests.support import small_models

MODEL = small_models.config(**small_models.VARIANTS["strokes"], height=16, width=12, layers=1)
RECIPE = TrainingConfig(9, batch=4, flip=True, background=0.2, unlabelled=0.5)


def tensors(batch: Batch) -> list[torch.Tensor]:
    images, labels, drawn = batch
    assert labels is not None
    assert drawn is not None
    return [images, labels, drawn.position, drawn.weight]


def test_other_processes_prepare_the_same_batches_in_order() -> None:
    images = np.zeros((30, 192), np.uint8)
    images[:, 90:120] = np.random.default_rng(0).integers(1, 256, (30, 30))
    batches = Batches(images, np.arange(30) % 3, RECIPE, MODEL)
    prepared = list(islice(batches.prepared(3, 2), 5))
    for number, batch in enumerate(prepared, 3):
        for found, expected in zip(tensors(batch), tensors(batches[number]), strict=True):
            assert torch.equal(found, expected)
