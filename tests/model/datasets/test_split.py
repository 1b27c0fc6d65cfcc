"""Train and test images by content: never the same picture on both sides, the same split everywhere."""

import numpy as np
import pytest

from scanline.model.datasets import DataError
from scanline.model.datasets.split import TEST_SHARE, Subset, split_by_content
from tests.support.pictures import noise

IMAGES = noise(3000, 12)


def sides(images: np.ndarray) -> tuple[set[bytes], set[bytes]]:
    split = split_by_content(images, "set")
    train, test = ({row.tobytes() for row in images[rows]} for rows in (split.train, split.test))
    return train, test


def test_a_tenth_is_on_the_test_side_and_nothing_on_both() -> None:
    train, test = sides(IMAGES)
    assert not train & test
    assert len(train) + len(test) == 3000
    assert len(test) / 3000 == pytest.approx(TEST_SHARE, abs=0.02)


def test_order_and_additions_move_no_picture() -> None:
    train, test = sides(IMAGES[:2000])
    assert sides(IMAGES[:2000][::-1].copy()) == (train, test)
    more_train, more_test = sides(IMAGES)
    assert train <= more_train
    assert test <= more_test
    split, reversed_ = (split_by_content(images, "set") for images in (IMAGES, IMAGES[::-1].copy()))
    assert split.digest == reversed_.digest
    assert split.digest != split_by_content(IMAGES[1:], "set").digest


def test_duplicates_are_counted_and_left_out() -> None:
    images = np.concatenate((IMAGES[:50], IMAGES[10:30], IMAGES[20:25]))
    split = split_by_content(images, "set")
    assert split.duplicates == 25
    assert sorted([*split.train, *split.test]) == list(range(50))
    assert sides(images) == sides(IMAGES[:50])


def test_two_pictures_are_enough_and_there_is_always_one_on_each_side() -> None:
    for seed in range(12):
        split = split_by_content(noise(2, 4, seed=seed), "set")
        assert (len(split.train), len(split.test)) == (1, 1)
    sentence = "photos holds one distinct picture; training needs at least two, one of them to test on"
    with pytest.raises(DataError) as error:
        split_by_content(np.repeat(IMAGES[:1], 5, axis=0), "photos")
    assert str(error.value) == sentence


def test_a_subset_is_indexed_as_an_array_and_copies() -> None:
    subset = Subset(IMAGES, np.array([5, 7, 9]))
    assert (len(subset), subset.shape) == (3, (3, 12))
    assert (subset[:2] == IMAGES[[5, 7]]).all()
    taken = subset[np.array([2, 0])]
    taken[:] = 0
    assert (subset[np.array([2, 0])] == IMAGES[[9, 5]]).all()
