"""CIFAR-10's binary version: records of a label and three planes, plain or gzipped."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets import DataError, load
from tests.support.training.cifar10_files import TRAIN, binary, interleaved, planes


def write(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for i, name in enumerate(TRAIN):
        (directory / f"{name}.bin").write_bytes(binary(planes(i)))
    (directory / "test_batch.bin").write_bytes(binary(planes(9, 3)))


@pytest.mark.parametrize("folder", ["", "cifar-10-batches-bin"])
def test_batches_in_order_with_channels_innermost(tmp_path: Path, folder: str) -> None:
    write(tmp_path / folder)
    expected = np.concatenate([interleaved(planes(i)) for i in range(5)])
    np.testing.assert_array_equal(load("cifar10", tmp_path, "train"), expected)
    np.testing.assert_array_equal(load("cifar10", tmp_path, "test"), interleaved(planes(9, 3)))


def test_gzipped(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin.gz").write_bytes(gzip.compress(binary(planes(9))))
    np.testing.assert_array_equal(load("cifar10", tmp_path, "test"), interleaved(planes(9)))


def third(data: bytes) -> Callable[[Path], object]:
    return lambda directory: (directory / "data_batch_3.bin").write_bytes(data)


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte short": (third(binary(planes(2))[:-1]), "data_batch_3.bin is truncated or wrong: 6145 bytes are not whole"),
    "wrong label": (third(binary(planes(2), label=10)), "data_batch_3.bin is not CIFAR-10: a record has the label 10"),
    "missing batch": (lambda d: (d / "data_batch_3.bin").unlink(), "neither data_batch_3.bin nor data_batch_3.bin.gz"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_file(tmp_path: Path, case: str) -> None:
    damage, sentence = WRONG[case]
    write(tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        load("cifar10", tmp_path, "train")
    assert "\n" not in str(error.value)
