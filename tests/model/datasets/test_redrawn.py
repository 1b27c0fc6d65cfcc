"""Redrawn digits: reduced as MNIST's were, each a new one of the same shape."""

from math import gcd

import numpy as np
import pytest

from scanline.model.datasets.redrawn import SIZES, redraw, reduced, reduction, to_bytes

OF_TWO = {0, 64, 128, 191, 255}  # the bytes of MNIST's digits that were reduced by exactly 2, and by exactly 3
OF_THREE = {0, 29, 57, 86, 114, 141, 170, 198, 226, 255}


def ring() -> np.ndarray:
    """A hand-made nought [28, 28] uint8 with smooth edges."""
    row, column = np.mgrid[0:28, 0:28]
    distance = np.abs(np.hypot((row - 13.5) / 9, (column - 13.5) / 6) - 0.85)
    image: np.ndarray = (255 * np.clip((0.25 - distance) / 0.12, 0, 1)).astype(np.uint8)
    return image


@pytest.mark.parametrize("size", [20, 24, 35, 37, 40, 50, 63, 80, 100])
def test_each_source_pixel_falls_where_it_lies_and_loses_only_where_it_is_divided(size: int) -> None:
    shares = reduction(size)
    for pixel in range(size):
        start, stop = 20 * pixel / size, 20 * (pixel + 1) / size
        covered = [max(0.0, min(stop, i + 1) - max(start, i)) for i in range(20)]
        lost = np.array(covered) - shares[:, pixel]
        if (np.array(covered) > 1e-9).sum() == 2 and gcd(size, 20) > 1:
            assert sorted(lost.round(9).tolist())[-1] == pytest.approx(0.01 * 20 / size, rel=1e-3)
            lost[lost.argmax()] = 0
        np.testing.assert_allclose(lost, 0, atol=1e-6)


@pytest.mark.parametrize(("size", "values"), [(40, OF_TWO), (60, OF_THREE)])
def test_the_greys_are_those_of_mnist(size: int, values: set[int]) -> None:
    scan = np.random.default_rng(0).random((size, size // 2)) < 0.5
    scan[:9], scan[-1] = True, True
    assert set(reduced(scan).flat) == values


def test_rounding_is_that_of_values_from_minus_one_to_one() -> None:
    shares = [0.0, 0.16, 0.3999999, 0.5, 0.7968, 0.992016, 0.9999999, 1.0]
    assert to_bytes(np.array(shares)).tolist() == [0, 41, 102, 128, 203, 252, 254, 255]


@pytest.mark.parametrize("shape", [(40, 20), (20, 40), (61, 60), (24, 3)])
def test_a_scan_is_reduced_to_twenty_pixels_with_its_mass_in_the_middle(shape: tuple[int, int]) -> None:
    scan = np.ones(shape, bool)
    scan[1 : shape[0] // 2, : shape[1] // 2] = False
    image = reduced(scan)
    assert image.shape == (28, 28)
    sides = [np.flatnonzero(image.any(axis=axis)) for axis in (1, 0)]
    assert max(found[-1] - found[0] + 1 for found in sides) == 20
    for axis in (0, 1):
        mass = image.sum(axis=1 - axis, dtype=float)
        assert 14 <= (mass @ (np.arange(28) + 0.5)) / mass.sum() < 15


def test_every_time_another_digit_of_the_same_shape() -> None:
    digit = ring()
    before = digit.copy()
    drawn = [redraw(digit, np.random.default_rng(seed)) for seed in range(20)]
    np.testing.assert_array_equal(digit, before)
    assert len({image.tobytes() for image in drawn}) == 20
    assert np.array_equal(drawn[3], redraw(digit, np.random.default_rng(3)))
    for image in drawn:
        near = max(
            np.corrcoef(np.roll(image, (down, right), (0, 1)).ravel(), digit.ravel())[0, 1]
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        )
        assert near > 0.85
        assert 0.8 < image.sum() / digit.sum(dtype=float) < 1.35


def test_an_empty_image_and_a_dot_stay_as_they_are() -> None:
    empty = np.zeros((28, 28), np.uint8)
    dot = empty.copy()
    dot[14, 14] = 40
    for image in (empty, dot):
        assert np.array_equal(redraw(image, np.random.default_rng(0)), image)


def test_sizes_are_drawn_from_all_of_them() -> None:
    random = np.random.default_rng(0)
    levels = [len(set(redraw(ring(), random).flat)) for _ in range(100)]
    assert min(levels) < 15, "none was reduced by a simple ratio"
    assert max(levels) > 60
    assert SIZES[0] == 24
    assert SIZES[-1] == 80
