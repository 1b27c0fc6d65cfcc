"""What the classifier is taught to be nothing, and that it is then sure of no noise."""

import numpy as np
import pytest

from scanline.model.evaluation.classifier import look
from scanline.model.evaluation.negatives import nonsense
from scanline.model.evaluation.train_classifier import teach
from tests.model.evaluation.test_classifier import SHAPE, TEST, TRAINING


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_it_has_the_shape_of_images_and_leaves_them_alone(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, *shape), np.uint8)
    before = images.copy()
    found = nonsense(images, np.random.default_rng(1))
    np.testing.assert_array_equal(images, before)
    assert (found.shape, found.dtype) == (images.shape, np.uint8)
    assert (found != images).reshape(30, -1).any(axis=1).all()
    np.testing.assert_array_equal(found, nonsense(images, np.random.default_rng(1)))


def test_a_shuffled_image_has_the_bytes_of_its_original() -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1), np.uint8)
    found = nonsense(images, np.random.default_rng(1))
    same = [sorted(a.ravel()) == sorted(b.ravel()) for a, b in zip(images, found, strict=True)]
    assert 10 < sum(same) < 30  # the others are colours by chance


def test_noise_is_recognised_less_than_images() -> None:
    taught = teach("cifar10", SHAPE, *TRAINING)
    noise = np.random.default_rng(2).integers(0, 256, TEST[0].shape, np.uint8)
    assert look(taught, noise).recognised.mean() < 0.1
    assert look(taught, TEST[0]).recognised.mean() > 0.3
