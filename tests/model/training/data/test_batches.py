"""Batches of training: their order, those that are made ahead, and digits drawn again: reduced as
MNIST's were, of the same shape, in the same place."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scanline.model.training import TrainingConfig
from scanline.model.training.data import augmentation
from scanline.model.training.data.augmentation import redrawn, reduction, to_bytes
from scanline.model.training.data.batches import batch_at, labels_at
from scanline.model.training.data.prefetch import Batch, Batches
from scanline.model.training.run.loop import train
from tests.support import small_models
from tests.support.sweeps import and_slow
from tests.support.training.training_runs import draw_no_curve

COLOUR = small_models.config(channels=3)


def numbered(count: int) -> np.ndarray:
    return np.repeat(np.arange(count, dtype=np.uint8)[:, None], 20, axis=1)


def seen(count: int, updates: range, **recipe: int) -> list[int]:
    config = TrainingConfig(1000, **{"batch": 7, **recipe})
    model = small_models.config()
    return [
        n
        for update in updates
        for n in batch_at(numbered(count), update, config, model)[:, 0].tolist()
    ]


def test_the_images_of_an_update_do_not_depend_on_the_order_of_calls() -> None:
    forwards = [seen(30, range(i, i + 1)) for i in range(10)]
    backwards = [seen(30, range(i, i + 1)) for i in reversed(range(10))]
    assert forwards == backwards[::-1]


# a batch is an epoch, a part of one, several of them
@pytest.mark.parametrize("count", [7, 10, 30, 3])
def test_every_epoch_is_a_permutation_of_its_own(count: int) -> None:
    order = seen(count, range(count))
    epochs = [order[i : i + count] for i in range(0, len(order), count)]
    assert len(epochs) == 7
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 7 or count == 3, "epochs repeat"
    assert seen(count, range(9), seed=0) != seen(count, range(9), seed=1)


def test_flip_mirrors_about_half_of_the_images_in_their_columns_in_a_copy() -> None:
    images = small_models.images(COLOUR, 200)
    before = images.copy()
    plain = batch_at(images, 3, TrainingConfig(9, batch=200), COLOUR).numpy()
    flipped = batch_at(images, 3, TrainingConfig(9, batch=200, flip=True), COLOUR).numpy()
    np.testing.assert_array_equal(images, before)
    mirrored = plain.reshape(200, 4, 5, 3)[:, :, ::-1].reshape(200, 60)
    same = (flipped == plain).all(axis=1)
    mirror = (flipped == mirrored).all(axis=1)
    assert (same ^ mirror).all()
    assert 70 < mirror.sum() < 130


def test_labels_are_those_of_the_images_or_left_out() -> None:
    config = TrainingConfig(9, batch=50, flip=True)
    labels = np.arange(30) + 1
    for update in range(3):
        found = labels_at(labels, update, config, 10).numpy()
        shown = batch_at(numbered(30), update, config, small_models.config())[:, 0].numpy() + 1
        assert ((found == shown) | (found == 0)).all()
        assert (found == shown).any()
        np.testing.assert_array_equal(found, labels_at(labels, update, config, 10).numpy())
    first = labels_at(labels, 0, config, 10)
    an_epoch_later = labels_at(labels, 3, config, 10)
    assert (first != an_epoch_later).any()


def test_with_contrast_another_class_is_drawn_beside_each_label() -> None:
    labels = np.arange(700) % 3 + 1
    plain, found = (
        labels_at(labels, 1, TrainingConfig(9, batch=700, contrast=c), 3).numpy()
        for c in (0.0, 6.0)
    )
    own, other = found.T
    np.testing.assert_array_equal(own, plain)
    assert sorted(set(zip(own, other, strict=True))) == [
        (a, b) for a in range(4) for b in range(1, 4) if a != b
    ]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_of_labels_that_are_left_out_is_the_recipes(share: float) -> None:
    config = TrainingConfig(9, batch=500, unlabelled=share)
    left_out = np.concatenate(
        [labels_at(np.ones(700, np.int64), update, config, 10) == 0 for update in range(8)]
    )
    assert left_out.mean() == pytest.approx(share, abs=0.03)


MODEL = small_models.config(**small_models.VARIANTS["strokes"], height=16, width=12, layers=1)
RECIPE = TrainingConfig(9, batch=4, flip=True, background=0.2, unlabelled=0.5)


def tensors(batch: Batch) -> list[torch.Tensor]:
    images, labels, drawn = batch
    return [images, labels, drawn.position, drawn.weight]


def test_other_processes_prepare_the_same_batches_in_order() -> None:
    images = np.zeros((30, 192), np.uint8)
    images[:, 90:120] = np.random.default_rng(0).integers(1, 256, (30, 30))
    batches = Batches(images, np.arange(30) % 3, RECIPE, MODEL)
    prepared = list(islice(batches.prepared(3, 2), 5))
    for number, batch in enumerate(prepared, 3):
        for found, expected in zip(tensors(batch), tensors(batches[number]), strict=True):
            assert torch.equal(found, expected)


DIGITS = small_models.config(height=28, width=28, layers=1)


def ring(side: int = 46, top: int = 4, left: int = 5) -> np.ndarray:
    """A ring [28, 28] as MNIST would have it, of a scan of `side`
    pixels, in the box at `top` and `left`.
    """
    y, x = np.indices((side, side)) - (side - 1) / 2
    radius = np.hypot(y, 1.2 * x) / side
    shares = reduction(side) @ ((radius > 0.3) & (radius < 0.5)) @ reduction(side).T
    image = np.zeros((28, 28), np.uint8)
    image[top : top + 20, left : left + 20] = to_bytes(shares)
    return image


@pytest.mark.parametrize("side", [20, 23, 60, 77])
def test_a_reduced_pixel_has_all_of_its_scan_but_for_what_divided_pixels_lose(side: int) -> None:
    sums = reduction(side).sum(1)
    whole = np.isclose(sums, 1, atol=1e-9)
    np.testing.assert_allclose(sums[~whole], 1 - 0.2 / side)
    starts = np.arange(20) * side / 20
    np.testing.assert_array_equal(whole, starts == np.floor(starts))


# the greys of images of MNIST that were reduced by exactly 1, 2 and 3
WHOLE = {20: (), 40: (64, 128, 191), 60: (29, 57, 86, 114, 141, 170, 198, 226)}


@pytest.mark.parametrize("side", WHOLE)
def test_the_greys_of_a_whole_reduction_are_those_of_mnist(
    side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(augmentation, "SIDES", (side, 0, side, side))
    random = np.random.default_rng(0)
    found = np.unique([redrawn(ring(), random) for _ in range(20)])
    greys = found[(found > 0) & (found < 254)]
    np.testing.assert_array_equal(greys, WHOLE[side])


def test_a_digit_drawn_again_has_the_shape_and_place_of_the_digit() -> None:
    image = ring()
    random = np.random.default_rng(0)
    before = image.copy()
    drawn = np.stack([redrawn(image, random) for _ in range(50)])
    np.testing.assert_array_equal(image, before)
    assert drawn.dtype == np.uint8
    assert len({again.tobytes() for again in drawn}) == 50
    outside = np.ones((28, 28), bool)
    outside[4:24, 5:25] = False
    assert not drawn[:, outside].any()
    mean = drawn.mean(axis=0)
    assert np.abs(mean - image).mean() < 4
    assert abs(mean.sum() / image.sum() - 1) < 0.02
    assert (np.abs(drawn.astype(int) - image) < 128).mean() > 0.99


@pytest.mark.parametrize("image", [np.zeros((28, 28), np.uint8), np.full((28, 28), 255, np.uint8)])
def test_a_picture_that_is_no_digit_stays_as_it_is(image: np.ndarray) -> None:
    np.testing.assert_array_equal(redrawn(image, np.random.default_rng(0)), image)


def test_a_share_of_a_batch_is_drawn_again_as_the_seed_and_the_update_say() -> None:
    images = np.stack([ring(side).ravel() for side in range(30, 70)])
    recipe = TrainingConfig(9, batch=40, redrawn=0.25)
    plain = batch_at(images, 0, TrainingConfig(9, batch=40), DIGITS)
    batches = [batch_at(images, update, recipe, DIGITS) for update in range(20)]
    same = np.mean(
        [(batch == images[:, None]).all(-1).any(0).mean() for batch in map(np.asarray, batches)]
    )
    assert same == pytest.approx(0.75, abs=0.05)
    assert (batches[0] == plain).all(1).sum() < 40
    np.testing.assert_array_equal(batches[7], batch_at(images, 7, recipe, DIGITS))
    assert (
        batch_at(images, 0, TrainingConfig(9, batch=40, redrawn=0.25, seed=1), DIGITS) != batches[0]
    ).any()


def test_digits_are_as_they_are_at_low_rates() -> None:
    images = np.stack([ring(side).ravel() for side in range(30, 70)])
    recipe = TrainingConfig(9, batch=40, redrawn=1.0)
    plain = batch_at(images, 0, TrainingConfig(9, batch=40), DIGITS)
    assert torch.equal(batch_at(images, 0, recipe, DIGITS, 0.19 * recipe.learning_rate), plain)
    assert not torch.equal(batch_at(images, 0, recipe, DIGITS, 0.2 * recipe.learning_rate), plain)


@pytest.mark.parametrize("workers", and_slow([1], 2))
def test_a_run_redraws_digits_at_high_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Updates that all lie within a long warm-up have low rates."""
    draw_no_curve(monkeypatch)
    images = np.stack([ring(side).ravel() for side in range(30, 46)])

    def weights(**recipe: Any) -> torch.Tensor:
        config = TrainingConfig(2, batch=2, evaluate_images=1, sample_images=1, **recipe)
        trained = train(
            DIGITS, config, images, images[:1], tmp_path, compiled=False, workers=workers
        )
        return torch.cat([weight.flatten() for weight in trained.parameters()])

    assert torch.equal(weights(redrawn=1.0), weights())
    assert not torch.equal(weights(redrawn=1.0, warm_up=0), weights(warm_up=0))
