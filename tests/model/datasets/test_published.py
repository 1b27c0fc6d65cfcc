"""Published data sets: MNIST's idx files, CIFAR-10 as binary and as
pickles, which run no code; and splits.
"""

import contextlib
import gzip
import io
import os
import pickle
import re
import struct
import tarfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.model.datasets import DataError, files, labels, load, of_shape
from scanline.model.datasets.split import TEST_SHARE, split_by_content
from tests.support.pictures import noise
from tests.support.training.cifar10_files import (
    TRAIN,
    binary,
    interleaved,
    planes,
    python_2,
    python_3,
    write_tar,
)

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 784), np.uint8)
DIGITS = np.uint8([7, 2, 1, 0, 9])
TRAINING = "train-images-idx3-ubyte"
TEST = "t10k-images-idx3-ubyte"
LABELS = "t10k-labels-idx1-ubyte"


def refused(sentence, read, *arguments):
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        read(*arguments)
    assert "\n" not in str(error.value)


def idx(
    images=IMAGES,
    magic=0x803,
    count=None,
    height=28,
    width=28,
):
    return (
        struct.pack(">IIII", magic, len(images) if count is None else count, height, width)
        + images.tobytes()
    )


def idx_labels(digits=DIGITS, magic=0x801, count=None):
    return struct.pack(">II", magic, len(digits) if count is None else count) + digits.tobytes()


def test_mnist_is_read_plain_or_gzipped(tmp_path):
    (tmp_path / TRAINING).write_bytes(idx())
    (tmp_path / f"{TEST}.gz").write_bytes(gzip.compress(idx(IMAGES[:2])))
    (tmp_path / LABELS).write_bytes(idx_labels())
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_labels()))
    assert_array_equal(load("mnist", tmp_path, "train"), IMAGES)
    assert_array_equal(load("mnist", tmp_path, "test"), IMAGES[:2])
    for split in ("test", "train"):
        assert_array_equal(labels("mnist", tmp_path, split, np.empty((5, 784))), DIGITS)


WRONG = {
    "half a header": (
        TRAINING,
        idx()[:15],
        f"{TRAINING} is truncated: 15 bytes, less than an IDX header",
    ),
    "labels": (
        TRAINING,
        idx(magic=0x801),
        "is not an IDX file of images: it begins with 00000801, not 00000803",
    ),
    "another size": (
        TRAINING,
        idx(height=32, width=32),
        f"{TRAINING} holds images of 32 x 32, not 28 x 28",
    ),
    "a byte short": (
        TRAINING,
        idx()[:-1],
        f"{TRAINING} holds 3919 bytes of pixels, not the 3920 of its 5 images",
    ),
    "more images announced": (
        TRAINING,
        idx(count=2**32 - 1),
        f"{TRAINING} holds 3920 bytes of pixels",
    ),
    "truncated gzip": (
        f"{TRAINING}.gz",
        gzip.compress(idx())[:-40],
        f"{TRAINING}.gz is truncated or not a gzip file",
    ),
    "no bytes in gzip": (f"{TRAINING}.gz", b"", f"{TRAINING}.gz is truncated"),
    "corrupt gzip": (
        f"{TRAINING}.gz",
        gzip.compress(idx())[:30] + bytes(99),
        "gz is truncated or not a gzip file",
    ),
    "only the other split": (TEST, idx(), f"has neither {TRAINING} nor {TRAINING}.gz"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_of_images(tmp_path, case):
    name, data, sentence = WRONG[case]
    (tmp_path / name).write_bytes(data)
    refused(sentence, load, "mnist", tmp_path, "train")


WRONG_LABELS = {
    "missing": (None, f"has neither {LABELS} nor {LABELS}.gz"),
    "images": (
        idx_labels(magic=0x803),
        "is not an IDX file of labels: it begins with 00000803, not 00000801",
    ),
    "a label short": (idx_labels(count=6), f"{LABELS} holds 5 labels, not the 6 that it announces"),
    "no digit": (idx_labels(np.uint8([1, 2, 10, 3, 4])), "is not mnist: it holds the label 10"),
    "of fewer images": (idx_labels(DIGITS[:3]), "holds 3 labels for the 5 test images of mnist"),
}


@pytest.mark.parametrize("case", WRONG_LABELS)
def test_a_wrong_file_of_labels(tmp_path, case):
    data, sentence = WRONG_LABELS[case]
    if data is not None:
        (tmp_path / LABELS).write_bytes(data)
    refused(sentence, labels, "mnist", tmp_path, "test", np.empty((5, 1)))


def test_no_directory_a_shape_of_no_set_and_a_bomb_are_refused(tmp_path, monkeypatch):
    refused("nowhere is not a directory", load, "mnist", tmp_path / "nowhere", "train")
    assert (of_shape(28, 28, 1), of_shape(32, 32, 3)) == ("mnist", "cifar10")
    refused("no data set has images of 28 x 28 x 3", of_shape, 28, 28, 3)
    monkeypatch.setattr(files, "MAX_UNPACKED", 1000)
    (tmp_path / f"{TRAINING}.gz").write_bytes(gzip.compress(idx()))
    refused("gz unpacks to more than 1,000 bytes", load, "mnist", tmp_path, "train")


def write_batches(directory):
    directory.mkdir(exist_ok=True)
    for i, name in enumerate(TRAIN):
        (directory / f"{name}.bin").write_bytes(binary(planes(i), label=2 * i))
    (directory / "test_batch.bin").write_bytes(binary(planes(9, 3)))


@pytest.mark.parametrize("folder", ["", "cifar-10-batches-bin"])
def test_cifar10_s_batches_in_order_with_channels_innermost(tmp_path, folder):
    write_batches(tmp_path / folder)
    expected = np.concatenate([interleaved(planes(i)) for i in range(5)])
    assert_array_equal(load("cifar10", tmp_path, "train"), expected)
    assert_array_equal(load("cifar10", tmp_path, "test"), interleaved(planes(9, 3)))
    found = labels("cifar10", tmp_path, "train", np.empty((10, 3072)))
    assert_array_equal(found, np.repeat([0, 2, 4, 6, 8], 2))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            binary(planes(2))[:-1],
            "data_batch_3.bin is truncated or wrong: 6145 bytes are not whole",
        ),
        (
            binary(planes(2), label=10),
            "data_batch_3.bin is not CIFAR-10: a record has the label 10",
        ),
        (None, "neither data_batch_3.bin nor data_batch_3.bin.gz"),
    ],
    ids=["a byte short", "wrong label", "missing batch"],
)
def test_a_wrong_batch(tmp_path, data, sentence):
    write_batches(tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    if data is not None:
        (tmp_path / "data_batch_3.bin").write_bytes(data)
    refused(sentence, load, "cifar10", tmp_path, "train")


WRITERS = {
    "python 2": python_2,
    "python 3": python_3,
    "python 3, data by bytes": lambda images: python_3(images, b"data"),
    "python 3, keys of bytes": lambda images: pickle.dumps(
        {b"labels": [6] * len(images), b"data": images}, 2
    ),
    "python 3, by columns": lambda images: python_3(np.asfortranarray(images)),
    "python 3, protocol 4": lambda images: python_3(images, protocol=4),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_pickled_batch_and_its_labels(tmp_path, writer):
    write_tar(tmp_path, {"readme.html": b"hello", "test_batch": WRITERS[writer](planes(9, 3))})
    assert_array_equal(load("cifar10", tmp_path, "test"), interleaved(planes(9, 3)))
    assert_array_equal(labels("cifar10", tmp_path, "test", np.empty((3, 3072))), [6, 6, 6])


def test_batches_in_order_whatever_their_order_in_the_tar(tmp_path):
    write_tar(tmp_path, {name: python_2(planes(i)) for i, name in reversed(list(enumerate(TRAIN)))})
    expected = np.concatenate([interleaved(planes(i)) for i in range(5)])
    assert_array_equal(load("cifar10", tmp_path, "train"), expected)


class Calls:
    """Pickles as a call of a function, which plain unpickling would make."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("function", [os.system, eval, exec, open])
def test_a_pickle_that_calls_is_refused_and_nothing_runs(tmp_path, function):
    trace = tmp_path / "trace"
    code = {os.system: f"touch {trace}", open: str(trace)}.get(
        function, f"open({str(trace)!r}, 'w')"
    )
    calls = Calls(function, code, *(["w"] if function is open else []))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        write_tar(tmp_path, {"test_batch": pickle.dumps({"data": calls}, protocol)})
        refused(
            "test_batch is not a CIFAR-10 batch: it asks for", load, "cifar10", tmp_path, "test"
        )
        assert not trace.exists()


NO_BATCH = "test_batch is not a CIFAR-10 batch"
NO_ROWS = "test_batch does not hold rows of 3,072 bytes"
BEYOND = python_2(planes(9, 3)).replace(b"J\x03\x00\x00\x00M", b"J\xff\xff\xff\x7fM")
PICKLES = {
    "not a pickle": (b"hello", NO_BATCH),
    "no data": (pickle.dumps({"labels": [1]}), NO_BATCH),
    "a number": (pickle.dumps(1), NO_BATCH),
    "another width": (python_3(np.zeros((2, 784), np.uint8)), NO_ROWS),
    "another type": (python_3(np.zeros((2, 3072), np.int64)), NO_ROWS),
    "more claimed than held": (BEYOND, NO_ROWS),
    "objects": (python_3(np.array([[None]])), NO_ROWS),
}


@pytest.mark.parametrize("case", PICKLES)
def test_a_wrong_pickle(tmp_path, case):
    data, sentence = PICKLES[case]
    write_tar(tmp_path, {"test_batch": data})
    refused(sentence, load, "cifar10", tmp_path, "test")


@pytest.mark.parametrize("wrong", [None, [1], [1, 10], [1, "2"]])
def test_pickled_labels_that_are_none(tmp_path, wrong):
    write_tar(tmp_path, {"test_batch": pickle.dumps({"labels": wrong, "data": planes(9)}, 2)})
    sentence = "test_batch does not hold a label from 0 to 9 for each of its 2 images"
    refused(sentence, labels, "cifar10", tmp_path, "test", np.empty((2, 1)))


def test_a_pickle_cut_anywhere_is_refused(tmp_path):
    whole = python_2(planes(9, 1))
    for size in [*range(0, 300, 7), *range(300, len(whole), 500), len(whole) - 1]:
        write_tar(tmp_path, {"test_batch": whole[:size]})
        refused(NO_BATCH, load, "cifar10", tmp_path, "test")


def test_missing_batch_or_a_directory_in_its_place(tmp_path):
    path = write_tar(tmp_path, {"data_batch_1": python_2(planes(1))})
    lacks = "cifar-10-python.tar.gz lacks cifar-10-batches-py/test_batch"
    refused(lacks, load, "cifar10", tmp_path, "test")
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("cifar-10-batches-py/test_batch")
        info.type = tarfile.DIRTYPE
        tar.addfile(info, io.BytesIO())
    refused(lacks, load, "cifar10", tmp_path, "test")


def test_a_truncated_or_corrupt_tar(tmp_path):
    path = write_tar(tmp_path, {"test_batch": python_2(planes(9, 3))})
    data = path.read_bytes()
    for keep in (0, 10, 100, 3000, 9000):
        path.write_bytes(data[:keep])
        refused(
            "cifar-10-python.tar.gz is truncated or not a tar file",
            load,
            "cifar10",
            tmp_path,
            "test",
        )
    for place in (300, 3000, 9000):
        path.write_bytes(data[:place] + bytes(100) + data[place + 100 :])
        refused("cifar-10-python.tar.gz", load, "cifar10", tmp_path, "test")


def test_a_pickle_with_a_random_byte_is_refused_or_harmless(tmp_path):
    """Pickles are programs: one wrong byte may say anything, and numpy's
    own classes crash on some of it.
    """
    whole = python_2(np.ones((1, 3072), np.uint8))
    rng = np.random.default_rng(0)
    for _ in range(200):
        noisy = bytearray(whole)
        noisy[rng.integers(len(whole) - 3072) if rng.random() < 0.9 else -1] = rng.integers(256)
        write_tar(tmp_path, {"test_batch": bytes(noisy)})
        with contextlib.suppress(DataError):
            assert load("cifar10", tmp_path, "test").shape[1] == 3072


SPLIT_IMAGES = noise(3000, 12)


def sides(images):
    split = split_by_content(images, "set")
    train, test = ({row.tobytes() for row in images[rows]} for rows in (split.train, split.test))
    return train, test


def test_a_tenth_is_on_the_test_side_and_nothing_on_both():
    train, test = sides(SPLIT_IMAGES)
    assert not train & test
    assert len(train) + len(test) == 3000
    assert len(test) / 3000 == pytest.approx(TEST_SHARE, abs=0.02)


def test_order_and_additions_move_no_picture():
    train, test = sides(SPLIT_IMAGES[:2000])
    assert sides(SPLIT_IMAGES[:2000][::-1].copy()) == (train, test)
    assert all(side <= more for side, more in zip((train, test), sides(SPLIT_IMAGES), strict=True))
    split, reversed_ = (
        split_by_content(images, "set") for images in (SPLIT_IMAGES, SPLIT_IMAGES[::-1].copy())
    )
    assert split.digest == reversed_.digest
    assert split.digest != split_by_content(SPLIT_IMAGES[1:], "set").digest


def test_duplicates_are_counted_and_left_out():
    images = np.concatenate((SPLIT_IMAGES[:50], SPLIT_IMAGES[10:30], SPLIT_IMAGES[20:25]))
    split = split_by_content(images, "set")
    assert split.duplicates == 25
    assert sorted([*split.train, *split.test]) == list(range(50))
    assert sides(images) == sides(SPLIT_IMAGES[:50])


def test_two_pictures_are_enough_and_there_is_always_one_on_each_side():
    for seed in range(12):
        split = split_by_content(noise(2, 4, seed=seed), "set")
        assert (len(split.train), len(split.test)) == (1, 1)
    sentence = (
        "photos holds one distinct picture; training needs at least two, one of them to test on"
    )
    refused(sentence, split_by_content, np.repeat(SPLIT_IMAGES[:1], 5, axis=0), "photos")
