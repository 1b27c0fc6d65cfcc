"""CIFAR-10 as binary files and as pickles, which run no code."""

import contextlib
import gzip
import io
import os
import pickle
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scanline.model.datasets import DataError, load
from tests.support.training.cifar10_files import TRAIN, binary, interleaved, planes, python_2, python_3, write_tar


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


WRITERS: dict[str, Callable[[np.ndarray], bytes]] = {
    "python 2": python_2,
    "python 3": python_3,
    "python 3, keys of bytes": lambda images: python_3(images, b"data"),
    "python 3, by columns": lambda images: python_3(np.asfortranarray(images)),
    "python 3, protocol 4": lambda images: python_3(images, protocol=4),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_one_batch(tmp_path: Path, writer: str) -> None:
    write_tar(tmp_path, {"readme.html": b"hello", "test_batch": WRITERS[writer](planes(9, 3))})
    np.testing.assert_array_equal(load("cifar10", tmp_path, "test"), interleaved(planes(9, 3)))


def test_batches_in_order_whatever_their_order_in_the_tar(tmp_path: Path) -> None:
    write_tar(tmp_path, {name: python_2(planes(i)) for i, name in reversed(list(enumerate(TRAIN)))})
    expected = np.concatenate([interleaved(planes(i)) for i in range(5)])
    np.testing.assert_array_equal(load("cifar10", tmp_path, "train"), expected)


def refused(directory: Path, sentence: str) -> None:
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        load("cifar10", directory, "test")
    assert "\n" not in str(error.value)


class Calls:
    """Pickles as a call of a function, which plain unpickling would make."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("function", [os.system, eval, exec, open])
def test_a_pickle_that_calls_is_refused_and_nothing_runs(tmp_path: Path, function: Callable[..., object]) -> None:
    trace = tmp_path / "trace"
    code = {os.system: f"touch {trace}", open: str(trace)}.get(function, f"open({str(trace)!r}, 'w')")
    calls = Calls(function, code, *(["w"] if function is open else []))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        write_tar(tmp_path, {"test_batch": pickle.dumps({"data": calls}, protocol)})
        refused(tmp_path, "test_batch is not a CIFAR-10 batch: it asks for")
        assert not trace.exists()


PICKLES: dict[str, tuple[bytes, str]] = {
    "not a pickle": (b"hello", "test_batch is not a CIFAR-10 batch"),
    "no data": (pickle.dumps({"labels": [1]}), "test_batch is not a CIFAR-10 batch"),
    "a number": (pickle.dumps(1), "test_batch is not a CIFAR-10 batch"),
    "another width": (python_3(np.zeros((2, 784), np.uint8)), "test_batch does not hold rows of 3,072 bytes"),
    "another type": (python_3(np.zeros((2, 3072), np.int64)), "test_batch does not hold rows of 3,072 bytes"),
    "more claimed than held": (
        python_2(planes(9, 3)).replace(b"J\x03\x00\x00\x00M", b"J\xff\xff\xff\x7fM"),
        "test_batch does not hold rows of 3,072 bytes",
    ),
    "objects": (python_3(np.array([[None]])), "test_batch does not hold rows of 3,072 bytes"),
}


@pytest.mark.parametrize("case", PICKLES)
def test_wrong_pickle(tmp_path: Path, case: str) -> None:
    data, sentence = PICKLES[case]
    write_tar(tmp_path, {"test_batch": data})
    refused(tmp_path, sentence)


def test_a_pickle_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = python_2(planes(9, 1))
    for size in [*range(0, 300, 7), *range(300, len(whole), 500), len(whole) - 1]:
        write_tar(tmp_path, {"test_batch": whole[:size]})
        refused(tmp_path, "test_batch is not a CIFAR-10 batch")


def test_missing_batch_or_a_directory_in_its_place(tmp_path: Path) -> None:
    path = write_tar(tmp_path, {"data_batch_1": python_2(planes(1))})
    refused(tmp_path, "cifar-10-python.tar.gz lacks cifar-10-batches-py/test_batch")
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("cifar-10-batches-py/test_batch")
        info.type = tarfile.DIRTYPE
        tar.addfile(info, io.BytesIO())
    refused(tmp_path, "cifar-10-python.tar.gz lacks cifar-10-batches-py/test_batch")


def test_a_truncated_or_corrupt_tar(tmp_path: Path) -> None:
    path = write_tar(tmp_path, {"test_batch": python_2(planes(9, 3))})
    data = path.read_bytes()
    for keep in (0, 10, 100, 3000, 9000):
        path.write_bytes(data[:keep])
        refused(tmp_path, "cifar-10-python.tar.gz is truncated or not a tar file")
    for place in (300, 3000, 9000):
        path.write_bytes(data[:place] + bytes(100) + data[place + 100 :])
        refused(tmp_path, "cifar-10-python.tar.gz")


def test_a_pickle_with_a_random_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    """Pickles are programs: one wrong byte may say anything, and numpy's own classes crash on some of it."""
    whole, rng = python_2(np.ones((1, 3072), np.uint8)), np.random.default_rng(0)
    for _ in range(200):
        noisy = bytearray(whole)
        noisy[rng.integers(len(whole) - 3072) if rng.random() < 0.9 else -1] = rng.integers(256)
        write_tar(tmp_path, {"test_batch": bytes(noisy)})
        with contextlib.suppress(DataError):
            assert load("cifar10", tmp_path, "test").shape[1] == 3072
