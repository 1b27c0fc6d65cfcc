"""The distance between sets of images, and the neighbours of samples among training images."""

import numpy as np
import pytest

from scanline.model.evaluation import neighbours
from scanline.model.evaluation.metrics import frechet_distance
from scanline.model.evaluation.neighbours import nearest

RNG = np.random.default_rng(0)


def cloud(mean: np.ndarray, root: np.ndarray, count: int = 400) -> np.ndarray:
    """[2 count, F] whose sample mean is `mean` and sample covariance is root root^T, exactly up to rounding."""
    noise = RNG.standard_normal((count, len(mean)))
    noise = np.concatenate((noise, -noise))
    covariance = noise.T @ noise / (len(noise) - 1)
    white = noise @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    return mean + white @ root.T


def test_simple_clouds_are_at_the_distance_of_their_closed_form() -> None:
    features, shift, values = RNG.standard_normal((300, 8)) * 5, np.arange(8) / 3, RNG.standard_normal((100, 1))
    assert frechet_distance(features, features[::-1]) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(features, features + shift) == pytest.approx(np.square(shift).sum())
    assert frechet_distance(features + shift, features) == pytest.approx(np.square(shift).sum())
    assert frechet_distance(np.zeros((10, 5)), np.full((10, 5), 2.0)) == pytest.approx(20)
    one_feature = 4 * values.var(ddof=1) + 4 * values.mean() ** 2
    assert frechet_distance(values, 3 * values) == pytest.approx(one_feature)
    assert frechet_distance(3 * values, values) == pytest.approx(one_feature)
    large = features * 1e6 + 1e7
    assert frechet_distance(large, large.copy()) >= 0


def test_two_dimensions_along_different_axes() -> None:
    """tr (C_1 C_2)^(1/2) of 2 x 2 matrices is (tr C_1 C_2 + 2 (det C_1 C_2)^(1/2))^(1/2)."""
    first, second = RNG.standard_normal((2, 2, 2))
    covariance_1, covariance_2 = first @ first.T, second @ second.T
    product = covariance_1 @ covariance_2
    shared = np.sqrt(np.trace(product) + 2 * np.sqrt(np.linalg.det(product)))
    expected = np.trace(covariance_1) + np.trace(covariance_2) - 2 * shared
    assert frechet_distance(cloud(np.zeros(2), first), cloud(np.zeros(2), second)) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 100), (64, 65)])
def test_fewer_images_than_features(n: int, m: int) -> None:
    first, second = RNG.standard_normal((n, 64)) ** 2, RNG.standard_normal((m, 64)) ** 2
    found = frechet_distance(first, second)
    assert np.isfinite(found)
    assert found > 0


def test_one_image_has_no_covariance() -> None:
    with pytest.raises(ValueError, match="a covariance needs at least 2 images, not 1"):
        frechet_distance(np.zeros((1, 4)), np.zeros((9, 4)))


def noise(count: int, seed: int, size: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, size), np.uint8)


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_as_a_plain_search(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", block)
    images, pool, seen = noise(20, 0), noise(100, 1), []
    found = nearest(images, pool, 4, progress=seen.append)
    distances = np.sqrt(np.square(images[:, None].astype(float) - pool[None]).mean(axis=2))
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :4])
    np.testing.assert_allclose(np.take_along_axis(distances, found.indices, axis=1), found.distances)
    assert seen == [*range(block, 100, block), 100]
    assert nearest(images, pool[:2], 5).indices.shape == (20, 2)


def test_neighbours_that_float32_cannot_distinguish_are_ordered_exactly() -> None:
    image = np.full((1, 3072), 255, np.uint8)
    pool = np.zeros((4, 3072), np.uint8)
    pool[np.arange(4), 0] = [1, 3, 2, 0]  # squares near 2e8, apart by a few hundred
    assert nearest(image, pool, 4).indices.tolist() == [[1, 2, 0, 3]]
