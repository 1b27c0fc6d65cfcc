"""Classes and labels of data sets."""

import gzip
import pickle
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from scanline.model.config import ModelConfig
from scanline.model.datasets import CLASSES, DIGESTS, WORDS, DataError, labels
from scanline.model.datasets.source import ImageSet, open_data
from scanline.model.training.presets import PRESETS
from tests.support import blobs
from tests.support.pictures import encode, noise
from tests.support.training.cifar10_files import TRAIN, binary, planes, python_2, python_3, write_tar

DIGITS = np.arange(64) % 10


def folder(directory: Path, files: Sequence[str], same: dict[str, str] | None = None) -> Path:
    """Write a picture of noise to each of the files; `same` names the file whose picture another one repeats."""
    same, seeds = same or {}, {name: seed for seed, name in enumerate(files)}
    for name in files:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(noise(3, 4, seed=seeds[same.get(name, name)])))
    return directory


def of_class(found: ImageSet, name: str) -> set[bytes]:
    """The images of a class, in both parts."""
    labels = found.labels
    assert labels is not None
    label = labels.names.index(name) + 1
    parts = ((found.train, labels.train), (found.test, labels.test))
    return {image.tobytes() for images, of in parts for image in images[np.flatnonzero(of == label)]}


def write_digits(directory: Path, train: np.ndarray = DIGITS, test: np.ndarray = DIGITS[:16]) -> Path:
    blobs.write(directory)
    for split, digits in (("train", train), ("t10k", test)):
        data = struct.pack(">II", 0x801, len(digits)) + digits.astype(np.uint8).tobytes()
        (directory / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(data))
    return directory


@pytest.mark.parametrize("name", WORDS)
def test_published_words_are_those_of_a_model_and_begin_with_the_class_name(name: str) -> None:
    config = replace(PRESETS[f"{name}-small"].model, classes=WORDS[name])
    assert config.class_names == CLASSES[name]
    assert {"mnist": ("7", "seven"), "cifar10": ("automobile", "car")}[name] in WORDS[name]
    assert ModelConfig.from_dict(config.to_dict()) == config


def test_labels_of_mnist_count_from_one_and_change_the_digest(tmp_path: Path) -> None:
    digest = open_data(write_digits(tmp_path)).digest
    with mock.patch.dict(DIGESTS, mnist=digest):
        found = open_data(tmp_path, classes=True)
    assert found.labels is not None
    assert found.labels.classes == WORDS["mnist"]
    np.testing.assert_array_equal(found.labels.train, DIGITS + 1)
    np.testing.assert_array_equal(found.labels.test, DIGITS[:16] + 1)
    assert found.labels.untested == ()
    without = open_data(tmp_path)
    assert without.labels is None
    other = open_data(write_digits(tmp_path, train=DIGITS[::-1]), classes=True)
    assert len({found.digest, without.digest, other.digest}) == 3


def test_labels_of_cifar10(tmp_path: Path) -> None:
    for i, name in enumerate((*TRAIN, "test_batch")):
        data = b"".join(binary(planes(i, 2)[k : k + 1], label=(2 * i + k) % 10) for k in range(2))
        (tmp_path / f"{name}.bin").write_bytes(data)
    with mock.patch.dict(DIGESTS, cifar10=open_data(tmp_path).digest):
        labels = open_data(tmp_path, classes=True).labels
    assert labels is not None
    np.testing.assert_array_equal(labels.train, np.arange(10) + 1)
    assert labels.names[int(labels.test[1]) - 1] == "automobile"
    assert labels.untested == CLASSES["cifar10"][2:]


def test_a_published_set_without_labels_or_without_a_class_is_refused(tmp_path: Path) -> None:
    write_digits(tmp_path, train=DIGITS % 8)
    with pytest.raises(DataError, match=re.escape(f"{tmp_path} has no training image of the classes 8, 9")):
        open_data(tmp_path, classes=True)
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="has neither train-labels-idx1-ubyte nor"):
        open_data(tmp_path, classes=True)
    assert len(open_data(tmp_path).train) == 64


def test_subfolders_are_classes_however_deep_their_pictures_lie(tmp_path: Path) -> None:
    files = [f"{name}/{i}.png" for name in ("Red fox", "lynx_lynx", "owl/young") for i in range(12)]
    found = open_data(folder(tmp_path, files), classes=True)
    assert found.labels is not None
    assert found.labels.classes == (("red fox",), ("lynx_lynx", "lynx lynx"), ("owl",))
    for i, name in enumerate(found.labels.names):
        assert of_class(found, name) == {noise(3, 4, seed=12 * i + k).tobytes() for k in range(12)}


def test_a_picture_in_two_classes_is_refused_in_both_and_a_repeated_one_is_not(tmp_path: Path) -> None:
    files = [f"{name}/{i}.png" for name in "ab" for i in range(9)]
    found = open_data(folder(tmp_path, files, same={"b/3.png": "a/5.png", "a/1.png": "a/0.png"}), classes=True)
    assert [str(refused) for refused in found.refused] == [
        "a/5.png: it is the same picture as b/3.png, which has another class",
        "b/3.png: it is the same picture as a/5.png, which has another class",
    ]
    assert (len(of_class(found, "a")), len(of_class(found, "b")), found.duplicates) == (7, 8, 1)


WRONG: dict[str, tuple[list[str], str]] = {
    "a loose picture": (["a/1.png", "b/1.png", "1.png"], "1.png is not in a subfolder of {}, so it has no class"),
    "one class": (["a/1.png", "a/2.png"], "{} must have from 2 to 1,000 subfolders, which are the classes, not 1"),
    "too many": ([f"{i}/1.png" for i in range(1001)], "{} must have from 2 to 1,000 subfolders, which"),
    "one name in two forms": (["caf\u00e9/1.png", "cafe\u0301/1.png"], "of {} do not name two classes: names are in"),
    "one name": (["Cat/1.png", "cat/1.png"], "the subfolders Cat and cat of {} do not name two classes"),
    "an only picture to test on": (["a/0.png", "a/1.png", "b/0.png"], "{} has no training image of the class b"),
}


@pytest.mark.parametrize("case", WRONG)
def test_folders_that_are_no_classes_are_refused(tmp_path: Path, case: str) -> None:
    files, sentence = WRONG[case]
    with pytest.raises(DataError, match=re.escape(sentence.format(tmp_path))) as error:
        open_data(folder(tmp_path, files), classes=True)
    assert "\n" not in str(error.value)


def test_a_class_without_a_readable_picture_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, [f"{name}/{i}.png" for name in "ab" for i in range(3)])
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.png").write_bytes(b"?")
    (tmp_path / ".hidden").mkdir()
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'c'} is a class without a picture that can be read")):
        open_data(tmp_path, classes=True)


def test_two_folders_that_differ_in_an_underscore_share_no_word(tmp_path: Path) -> None:
    files = [f"{name}/{i}.png" for name in ("a b", "a-b", "a_b") for i in range(5)]
    labels = open_data(folder(tmp_path, files), classes=True).labels
    assert labels is not None
    assert labels.classes == (("a b",), ("a-b",), ("a_b",))


def test_an_array_has_no_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise(5, 3, 3))
    with pytest.raises(DataError, match=re.escape("a.npy has no labels; classes are those of MNIST, of CIFAR-10 or")):
        open_data(tmp_path / "a.npy", classes=True)


FILE = "t10k-labels-idx1-ubyte"
LABELLED = np.uint8([7, 2, 1, 0, 9])


def idx(digits: np.ndarray = LABELLED, magic: int = 0x801, count: int | None = None) -> bytes:
    return struct.pack(">II", magic, len(digits) if count is None else count) + digits.tobytes()


def test_mnist_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(idx())
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx()))
    for split in ("test", "train"):
        np.testing.assert_array_equal(labels("mnist", tmp_path, split, np.empty((5, 784))), LABELLED)


WRONG_LABELS: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, f"has neither {FILE} nor {FILE}.gz"),
    "images": (idx(magic=0x803), f"{FILE} is not an IDX file of labels: it begins with 00000803, not 00000801"),
    "a label short": (idx(count=6), f"{FILE} holds 5 labels, not the 6 that it announces"),
    "no digit": (idx(np.uint8([1, 2, 10, 3, 4])), "is not mnist: it holds the label 10"),
    "of fewer images": (idx(LABELLED[:3]), "holds 3 labels for the 5 test images of mnist"),
}


def refused(name: str, directory: Path, images: int, sentence: str) -> None:
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        labels(name, directory, "test", np.empty((images, 1)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("case", WRONG_LABELS)
def test_wrong_file(tmp_path: Path, case: str) -> None:
    data, sentence = WRONG_LABELS[case]
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
