"""Batches of training: their order, and those that are made ahead."""

from itertools import islice

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from scanline.model.training import TrainingConfig
from scanline.model.training.data.batches import batch_at, labels_at
from scanline.model.training.data.prefetch import Batches
from tests.support import small_models

COLOUR = small_models.config(channels=3)


def numbered(count):
    return np.repeat(np.arange(count, dtype=np.uint8)[:, None], 20, axis=1)


def seen(count, updates, **recipe):
    config = TrainingConfig(1000, **{"batch": 7, **recipe})
    model = small_models.config()
    return [
        n
        for update in updates
        for n in batch_at(numbered(count), update, config, model)[:, 0].tolist()
    ]


def test_the_images_of_an_update_do_not_depend_on_the_order_of_calls():
    forwards = [seen(30, range(i, i + 1)) for i in range(10)]
    backwards = [seen(30, range(i, i + 1)) for i in reversed(range(10))]
    assert forwards == backwards[::-1]


# a batch is an epoch, a part of one, several of them
@pytest.mark.parametrize("count", [7, 10, 30, 3])
def test_every_epoch_is_a_permutation_of_its_own(count):
    order = seen(count, range(count))
    epochs = [order[i : i + count] for i in range(0, len(order), count)]
    assert len(epochs) == 7
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 7 or count == 3, "epochs repeat"
    assert seen(count, range(9), seed=0) != seen(count, range(9), seed=1)


def test_flip_mirrors_about_half_of_the_images_in_their_columns_in_a_copy():
    images = small_models.images(COLOUR, 200)
    before = images.copy()
    plain = batch_at(images, 3, TrainingConfig(9, batch=200), COLOUR).numpy()
    flipped = batch_at(images, 3, TrainingConfig(9, batch=200, flip=True), COLOUR).numpy()
    assert_array_equal(images, before)
    mirrored = plain.reshape(200, 4, 5, 3)[:, :, ::-1].reshape(200, 60)
    same = (flipped == plain).all(axis=1)
    mirror = (flipped == mirrored).all(axis=1)
    assert (same ^ mirror).all()
    assert 70 < mirror.sum() < 130


def test_labels_are_those_of_the_images_or_left_out():
    config = TrainingConfig(9, batch=50, flip=True)
    labels = np.arange(30) + 1
    for update in range(3):
        found = labels_at(labels, update, config).numpy()
        shown = batch_at(numbered(30), update, config, small_models.config())[:, 0].numpy() + 1
        assert ((found == shown) | (found == 0)).all()
        assert (found == shown).any()
        assert_array_equal(found, labels_at(labels, update, config).numpy())
    first = labels_at(labels, 0, config)
    an_epoch_later = labels_at(labels, 3, config)
    assert (first != an_epoch_later).any()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_of_labels_that_are_left_out_is_the_recipes(share):
    config = TrainingConfig(9, batch=500, unlabelled=share)
    left_out = np.concatenate(
        [labels_at(np.ones(700, np.int64), update, config) == 0 for update in range(8)]
    )
    assert left_out.mean() == pytest.approx(share, abs=0.03)


MODEL = small_models.config_of("strokes", height=16, width=12, layers=1)
RECIPE = TrainingConfig(9, batch=4, flip=True, background=0.2, unlabelled=0.5)


def tensors(batch):
    images, labels, drawn = batch
    return [images, labels, drawn.position, drawn.weight]


def test_other_processes_prepare_the_same_batches_in_order():
    images = np.zeros((30, 192), np.uint8)
    images[:, 90:120] = np.random.default_rng(0).integers(1, 256, (30, 30))
    batches = Batches(images, np.arange(30) % 3, RECIPE, MODEL)
    prepared = list(islice(batches.prepared(3, 2), 5))
    for number, batch in enumerate(prepared, 3):
        for found, expected in zip(tensors(batch), tensors(batches[number]), strict=True):
            assert torch.equal(found, expected)
