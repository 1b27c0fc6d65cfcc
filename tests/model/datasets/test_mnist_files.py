"""MNIST: its idx files, and how a data set is split."""

import gzip
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets import DataError, files, load, of_shape
from scanline.model.datasets.split import TEST_SHARE, Subset, split_by_content
from tests.support.pictures import noise

TRAIN, TEST = "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 784), np.uint8)


def idx(
    images: np.ndarray = IMAGES, magic: int = 0x803, count: int | None = None, height: int = 28, width: int = 28
) -> bytes:
    return struct.pack(">IIII", magic, len(images) if count is None else count, height, width) + images.tobytes()


def test_splits_are_two_files_plain_or_gzipped(tmp_path: Path) -> None:
    (tmp_path / TRAIN).write_bytes(idx())
    (tmp_path / f"{TEST}.gz").write_bytes(gzip.compress(idx(IMAGES[:2])))
    np.testing.assert_array_equal(load("mnist", tmp_path, "train"), IMAGES)
    np.testing.assert_array_equal(load("mnist", tmp_path, "test"), IMAGES[:2])


WRONG: dict[str, tuple[str, bytes, str]] = {
    "half a header": (TRAIN, idx()[:15], f"{TRAIN} is truncated: 15 bytes, less than an IDX header"),
    "labels": (TRAIN, idx(magic=0x801), f"{TRAIN} is not an IDX file of images: it begins with 00000801, not 00000803"),
    "another size": (TRAIN, idx(height=32, width=32), f"{TRAIN} holds images of 32 x 32, not 28 x 28"),
    "a byte short": (TRAIN, idx()[:-1], f"{TRAIN} holds 3919 bytes of pixels, not the 3920 of its 5 images"),
    "more images announced": (TRAIN, idx(count=2**32 - 1), f"{TRAIN} holds 3920 bytes of pixels"),
    "truncated gzip": (f"{TRAIN}.gz", gzip.compress(idx())[:-40], f"{TRAIN}.gz is truncated or not a gzip file"),
    "no bytes in gzip": (f"{TRAIN}.gz", b"", f"{TRAIN}.gz is truncated"),
    "corrupt gzip": (f"{TRAIN}.gz", gzip.compress(idx())[:30] + bytes(99), f"{TRAIN}.gz is truncated or not a gzip"),
    "only the other split": (TEST, idx(), f"has neither {TRAIN} nor {TRAIN}.gz"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_file(tmp_path: Path, case: str) -> None:
    name, data, sentence = WRONG[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        load("mnist", tmp_path, "train")
    assert "\n" not in str(error.value)


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is not a directory"):
        load("mnist", tmp_path / "nowhere", "train")


def test_set_of_a_shape() -> None:
    assert (of_shape(28, 28, 1), of_shape(32, 32, 3)) == ("mnist", "cifar10")
    with pytest.raises(DataError, match="no data set has images of 28 x 28 x 3"):
        of_shape(28, 28, 3)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_UNPACKED", 1000)
    (tmp_path / f"{TRAIN}.gz").write_bytes(gzip.compress(idx()))
    with pytest.raises(DataError, match=r"gz unpacks to more than 1,000 bytes"):
        load("mnist", tmp_path, "train")


SPLIT_IMAGES = noise(3000, 12)


def sides(images: np.ndarray) -> tuple[set[bytes], set[bytes]]:
    split = split_by_content(images, "set")
    train, test = ({row.tobytes() for row in images[rows]} for rows in (split.train, split.test))
    return train, test


def test_a_tenth_is_on_the_test_side_and_nothing_on_both() -> None:
    train, test = sides(SPLIT_IMAGES)
    assert not train & test
    assert len(train) + len(test) == 3000
    assert len(test) / 3000 == pytest.approx(TEST_SHARE, abs=0.02)


def test_order_and_additions_move_no_picture() -> None:
    train, test = sides(SPLIT_IMAGES[:2000])
    assert sides(SPLIT_IMAGES[:2000][::-1].copy()) == (train, test)
    more_train, more_test = sides(SPLIT_IMAGES)
    assert train <= more_train
    assert test <= more_test
    split, reversed_ = (split_by_content(images, "set") for images in (SPLIT_IMAGES, SPLIT_IMAGES[::-1].copy()))
    assert split.digest == reversed_.digest
    assert split.digest != split_by_content(SPLIT_IMAGES[1:], "set").digest


def test_duplicates_are_counted_and_left_out() -> None:
    images = np.concatenate((SPLIT_IMAGES[:50], SPLIT_IMAGES[10:30], SPLIT_IMAGES[20:25]))
    split = split_by_content(images, "set")
    assert split.duplicates == 25
    assert sorted([*split.train, *split.test]) == list(range(50))
    assert sides(images) == sides(SPLIT_IMAGES[:50])


def test_two_pictures_are_enough_and_there_is_always_one_on_each_side() -> None:
    for seed in range(12):
        split = split_by_content(noise(2, 4, seed=seed), "set")
        assert (len(split.train), len(split.test)) == (1, 1)
    sentence = "photos holds one distinct picture; training needs at least two, one of them to test on"
    with pytest.raises(DataError) as error:
        split_by_content(np.repeat(SPLIT_IMAGES[:1], 5, axis=0), "photos")
    assert str(error.value) == sentence


def test_a_subset_is_indexed_as_an_array_and_copies() -> None:
    subset = Subset(SPLIT_IMAGES, np.array([5, 7, 9]))
    assert (len(subset), subset.shape) == (3, (3, 12))
    assert (subset[:2] == SPLIT_IMAGES[[5, 7]]).all()
    taken = subset[np.array([2, 0])]
    taken[:] = 0
    assert (subset[np.array([2, 0])] == SPLIT_IMAGES[[9, 5]]).all()
