"""Nearest neighbours, block by block, against a plain search."""

import numpy as np
import pytest

from scanline.model.evaluation import neighbours
from scanline.model.evaluation.neighbours import nearest


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
