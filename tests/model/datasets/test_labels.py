"""The classes of the published images: MNIST's label files, CIFAR-10's label bytes and lists."""

import gzip
import pickle
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets import DataError, labels
from tests.support.training.cifar10_files import TRAIN, binary, planes, python_2, python_3, write_tar

FILE = "t10k-labels-idx1-ubyte"
DIGITS = np.uint8([7, 2, 1, 0, 9])


def idx(digits: np.ndarray = DIGITS, magic: int = 0x801, count: int | None = None) -> bytes:
    return struct.pack(">II", magic, len(digits) if count is None else count) + digits.tobytes()


def test_mnist_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(idx())
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx()))
    for split in ("test", "train"):
        np.testing.assert_array_equal(labels("mnist", tmp_path, split, np.empty((5, 784))), DIGITS)


WRONG: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, f"has neither {FILE} nor {FILE}.gz"),
    "images": (idx(magic=0x803), f"{FILE} is not an IDX file of labels: it begins with 00000803, not 00000801"),
    "a label short": (idx(count=6), f"{FILE} holds 5 labels, not the 6 that it announces"),
    "no digit": (idx(np.uint8([1, 2, 10, 3, 4])), "is not mnist: it holds the label 10"),
    "of fewer images": (idx(DIGITS[:3]), "holds 3 labels for the 5 test images of mnist"),
}


def refused(name: str, directory: Path, images: int, sentence: str) -> None:
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        labels(name, directory, "test", np.empty((images, 1)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_file(tmp_path: Path, case: str) -> None:
    data, sentence = WRONG[case]
    if data is not None:
        (tmp_path / FILE).write_bytes(data)
    refused("mnist", tmp_path, 5, sentence)


def test_cifar10_binary(tmp_path: Path) -> None:
    for i, name in enumerate(TRAIN):
        (tmp_path / f"{name}.bin").write_bytes(binary(planes(i), label=2 * i))
    np.testing.assert_array_equal(
        labels("cifar10", tmp_path, "train", np.empty((10, 3072))), np.repeat(np.uint8([0, 2, 4, 6, 8]), 2)
    )


BYTES_KEYS = pickle.dumps({b"labels": [6, 6, 6], b"data": planes(9, 3)}, 2)


@pytest.mark.parametrize("batch", [python_2(planes(9, 3)), python_3(planes(9, 3)), BYTES_KEYS], ids=["2", "3", "bytes"])
def test_cifar10_pickles(tmp_path: Path, batch: bytes) -> None:
    write_tar(tmp_path, {"test_batch": batch})
    np.testing.assert_array_equal(labels("cifar10", tmp_path, "test", np.empty((3, 3072))), [6, 6, 6])


@pytest.mark.parametrize("wrong", [None, [1], [1, 10], [1, "2"]])
def test_cifar10_labels_that_are_none(tmp_path: Path, wrong: object) -> None:
    write_tar(tmp_path, {"test_batch": pickle.dumps({"labels": wrong, "data": planes(9)}, 2)})
    refused("cifar10", tmp_path, 2, "test_batch does not hold a label from 0 to 9 for each of its 2 images")
