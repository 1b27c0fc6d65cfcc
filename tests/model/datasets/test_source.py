"""Data sets that --data accepts: published files, a folder of pictures, a .npy
array; their classes and labels.
"""

import gzip
import json
import re
import struct
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.model.base.config import ModelConfig
from scanline.model.datasets import CLASSES, DIGESTS, WORDS, DataError
from scanline.model.datasets.source import open_data, parse_size
from scanline.model.training.presets import PRESETS
from tests.support import blobs
from tests.support.pictures import encode, noise, write_noise


def refused(sentence, path, **options):
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        open_data(path, **options)
    assert "\n" not in str(error.value)


def test_files_of_a_published_set_keep_its_split_and_are_it_by_their_digest(tmp_path):
    blobs.write(tmp_path)
    found = open_data(tmp_path, classes=True)
    assert (found.published, found.size, found.labels.names) == (
        None,
        "28x28 grey",
        tuple("0123"),
    )
    with mock.patch.dict(DIGESTS, mnist=open_data(tmp_path).digest):
        found = open_data(tmp_path)
    assert found.published == "mnist"
    assert (found.train == blobs.images(64, 0).reshape(64, -1)).all()
    assert (found.test == blobs.images(16, 1).reshape(16, -1)).all()
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    refused("has neither train-images-idx3-ubyte nor", tmp_path)


@pytest.mark.parametrize("at", ["MNIST/raw/NAME", "raw/NAME", "NAME/NAME", "DOTS"])
def test_published_files_are_found_where_torchvision_and_kaggle_put_them(tmp_path, at):
    blobs.write(tmp_path)
    expected = open_data(tmp_path, classes=True)
    for file in list(tmp_path.iterdir()):
        there = (
            tmp_path
            / "moved"
            / at.replace("NAME", file.name).replace("DOTS", file.name.replace("-idx", ".idx"))
        )
        there.parent.mkdir(parents=True, exist_ok=True)
        file.rename(there)
    assert open_data(tmp_path / "moved", classes=True).digest == expected.digest


def pictures(directory, *seeds):
    directory.mkdir(parents=True)
    for seed in seeds:
        (directory / f"{seed}.png").write_bytes(encode(noise(3, 4, seed=seed)))


def shown(images):
    return {image.tobytes() for image in images[:]}


def test_a_folder_with_parts_of_its_own_keeps_them(tmp_path):
    for name, seeds in {
        "train/a": (0, 1, 2),
        "train/b": (3, 4),
        "val/a": (5,),
        "val/b": (6, 1),
    }.items():
        pictures(tmp_path / name, *seeds)
    found = open_data(tmp_path, classes=True)
    assert shown(found.train) == {noise(3, 4, seed=seed).tobytes() for seed in (0, 2, 3, 4)}
    # 1 is in two classes
    assert (found.labels.names, len(found.test)) == (("a", "b"), 2)
    assert [refused.file for refused in found.refused] == ["a/1.png", "b/1.png"]
    without = open_data(tmp_path)
    assert shown(without.test) == {noise(3, 4, seed=seed).tobytes() for seed in (5, 6, 1)}
    assert (len(without.train), without.duplicates, without.has_parts) == (4, 1, True)
    pictures(tmp_path / "TEST" / "a", 7)
    pictures(tmp_path / "TEST" / "b", 8)
    found = open_data(tmp_path, classes=True)
    assert shown(found.test) == {noise(3, 4, seed=seed).tobytes() for seed in (7, 8)}
    assert (found.has_parts, [str(refused) for refused in found.refused]) == (
        True,
        [
            f"val/{name}.png: not used, since there are test pictures"
            for name in ("a/5", "b/1", "b/6")
        ],
    )
    # An archive that unpacks into a folder of its own has the same parts.
    (tmp_path / "data").mkdir()
    for name in ("train", "val", "TEST"):
        (tmp_path / name).rename(tmp_path / "data" / name)
    assert open_data(tmp_path, classes=True).digest == found.digest


def write_parquet(path, seeds, names=("cat", "dog")):
    """Write pictures of noise in the form that Hugging Face's `datasets` writes, labels in turn."""
    import pyarrow  # late, as below: it takes as long as all other imports of these tests
    from pyarrow import parquet

    pictures = [{"bytes": encode(noise(3, 4, seed=seed)), "path": f"{seed}.png"} for seed in seeds]
    table = pyarrow.table({"image": pictures, "label": [seed % 2 for seed in seeds]})
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    about = json.dumps({"info": {"features": features}})
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table.replace_schema_metadata({"huggingface": about}), path)


def test_parquet_files_are_folders_of_parts_and_classes(tmp_path):
    import pyarrow
    from pyarrow import parquet

    write_parquet(tmp_path / "data" / "train-00000-of-00002.parquet", range(4))
    write_parquet(tmp_path / "data" / "train-00001-of-00002.parquet", range(4, 6))
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", (6, 7))
    found = open_data(tmp_path, classes=True)
    assert shown(found.train) == {noise(3, 4, seed=seed).tobytes() for seed in range(6)}
    assert shown(found.test) == {noise(3, 4, seed=seed).tobytes() for seed in (6, 7)}
    assert (found.labels.names, sorted(found.labels.test)) == (("cat", "dog"), [1, 2])
    for part, seeds in (("train", range(6)), ("test", (6, 7))):  # as the Hub converts sets
        write_parquet(tmp_path / "set" / "default" / part / "0000.parquet", seeds)
    assert open_data(tmp_path / "set", classes=True).digest == found.digest
    for name in ("train-00000-of-00002", "pictures"):
        write_parquet(tmp_path / f"{name}.parquet", range(4))
        one = open_data(tmp_path / f"{name}.parquet", size=(4, 3), classes=name == "pictures")
        assert len(one.train) + len(one.test) == 4
    parquet.write_table(pyarrow.table({"text": ["a"]}), tmp_path / "text.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    for name, sentence in (
        ("text", "has no column of pictures: its columns are text"),
        ("broken", "is not a Parquet"),
    ):
        refused(sentence, tmp_path / f"{name}.parquet")


def test_links_are_followed_once_and_what_macos_adds_is_passed_over(tmp_path):
    pictures(tmp_path / "real" / "a", 0, 1, 2)
    pictures(tmp_path / "elsewhere", 3, 4)
    pictures(tmp_path / "real" / "__MACOSX" / "a", 5)
    (tmp_path / "real" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "real" / "loop").symlink_to(tmp_path / "real")
    found = open_data(tmp_path / "real")
    assert len(found.train) + len(found.test) == 5
    assert [str(refused) for refused in found.refused] == [
        "loop: it links to a folder that is read already"
    ]
    (tmp_path / "real" / "loop").unlink()
    assert open_data(tmp_path / "real", classes=True).labels.names == ("a", "b")


def test_a_folder_is_split_by_content(tmp_path):
    for i in range(40):
        (tmp_path / f"{i}.png").write_bytes(encode(noise(3, 4, seed=i % 30)))
    (tmp_path / "broken.png").write_bytes(b"?")
    found = open_data(tmp_path)
    assert (found.height, found.width, found.channels, found.published, found.has_parts) == (
        3,
        4,
        1,
        None,
        False,
    )
    assert (len(found.train) + len(found.test), found.duplicates, len(found.refused)) == (30, 10, 1)
    assert min(len(found.train), len(found.test)) >= 1


@pytest.mark.parametrize(("shape", "size"), [((30, 3, 4), "4x3 grey"), ((30, 3, 4, 3), "4x3 RGB")])
def test_an_array_is_mapped_and_not_read(tmp_path, shape, size):
    images = noise(*shape)
    np.save(tmp_path / "a.npy", images)
    found = open_data(tmp_path / "a.npy")
    assert found.size == size
    assert not isinstance(found.train, np.ndarray)
    assert isinstance(found.train.images, np.memmap)
    both = {row.tobytes() for side in (found.train, found.test) for row in side[:]}
    assert both == {image.tobytes() for image in images}


WRONG = {
    "floats": (
        np.zeros((4, 3, 3)),
        "must hold uint8 [n, H, W] or [n, H, W, 3], not float64 [4, 3, 3]",
    ),
    "two channels": (np.zeros((4, 5, 3, 2), np.uint8), "not uint8 [4, 5, 3, 2]"),
    "no images": (np.zeros((0, 3, 3), np.uint8), "holds no images: its shape is [0, 3, 3]"),
    "one that repeats": (np.zeros((4, 3, 3), np.uint8), "holds one distinct picture"),
    "objects": (np.array([{}, None], object), "is truncated or not a .npy file of bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_array_of_anything_else_is_refused(tmp_path, case):
    array, sentence = WRONG[case]
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    refused(sentence, tmp_path / "a.npy")


@pytest.mark.parametrize("damage", ["cut", "head", "another kind", "a shape beyond memory"])
def test_a_damaged_array_is_refused(tmp_path, damage):
    np.save(tmp_path / "a.npy", noise(5, 3, 3))
    data = (tmp_path / "a.npy").read_bytes()
    large = data.replace(b"(5, 3, 3), }" + b" " * 20, b"(5, 3, 99999999999999999999), }".ljust(32))
    damaged = {
        "cut": data[:-1],
        "head": data[:9],
        "another kind": b"PK" + data[2:],
        "a shape beyond memory": large,
    }
    (tmp_path / "a.npy").write_bytes(damaged[damage])
    assert damaged[damage] != data
    refused("a.npy is truncated or not a .npy file of bytes", tmp_path / "a.npy")


def test_size_and_grey_are_for_folders(tmp_path):
    blobs.write(tmp_path)
    np.save(tmp_path / "a.npy", noise(5, 3, 3))
    for path, options in ((tmp_path, {"size": (8, 8)}), (tmp_path / "a.npy", {"grey": True})):
        refused(f"--size and --grey are for a folder of pictures, not for {path}", path, **options)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.zip", b"PK", "a.zip is neither a folder nor a .npy or .parquet file"),
        (
            "train.csv",
            b"label,pixel0\n1,0\n",
            "is a csv table; make an array of it in its folder: python",
        ),
        ("letters-idx3-ubyte", b"\0\0\x08\x03", "letters-idx3-ubyte: it is a broken array"),
        ("nowhere", None, "nowhere does not exist"),
    ],
)
def test_other_paths_are_refused(tmp_path, name, data, sentence):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    refused(sentence, tmp_path / name)


def test_sizes():
    assert parse_size("32") == (32, 32)
    assert parse_size("48x32") == parse_size("48X32") == (48, 32)
    for wrong in ("", "0", "-3", "4x", "x4", "3x0", "a", "4.5", "99999x99999"):
        with pytest.raises(DataError, match=re.escape(f"like 48x32, not {wrong!r}")):
            parse_size(wrong)


DIGITS = np.arange(64) % 10


def of_class(found, name):
    label = found.labels.names.index(name) + 1
    parts = ((found.train, found.labels.train), (found.test, found.labels.test))
    return {
        image.tobytes() for images, of in parts for image in images[np.flatnonzero(of == label)]
    }


def write_digits(directory, train=DIGITS, test=DIGITS[:16]):
    blobs.write(directory)
    for split, digits in (("train", train), ("t10k", test)):
        data = struct.pack(">II", 0x801, len(digits)) + digits.astype(np.uint8).tobytes()
        (directory / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(data))
    return directory


@pytest.mark.parametrize("name", WORDS)
def test_published_words_are_those_of_a_model_and_begin_with_the_class_name(name):
    config = replace(PRESETS[f"{name}-small"].model, classes=WORDS[name])
    assert config.class_names == CLASSES[name]
    assert {"mnist": ("7", "seven"), "cifar10": ("automobile", "car")}[name] in WORDS[name]
    assert ModelConfig.from_dict(config.to_dict()) == config


def test_labels_of_mnist_count_from_one_and_change_the_digest(tmp_path):
    with mock.patch.dict(DIGESTS, mnist=open_data(write_digits(tmp_path)).digest):
        found = open_data(tmp_path, classes=True)
    assert found.labels.classes == WORDS["mnist"]
    assert_array_equal(found.labels.train, DIGITS + 1)
    assert_array_equal(found.labels.test, DIGITS[:16] + 1)
    assert found.labels.untested == ()
    without = open_data(tmp_path)
    assert without.labels is None
    other = open_data(write_digits(tmp_path, train=DIGITS[::-1]), classes=True)
    assert len({found.digest, without.digest, other.digest}) == 3


def test_a_published_set_without_labels_or_without_a_class_is_refused(tmp_path):
    write_digits(tmp_path, train=DIGITS % 8)
    refused(f"{tmp_path} has no training image of the classes 8, 9", tmp_path, classes=True)
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    refused("has neither train-labels-idx1-ubyte nor", tmp_path, classes=True)
    assert len(open_data(tmp_path).train) == 64


def test_subfolders_are_classes_however_deep_their_pictures_lie(tmp_path):
    files = [f"{name}/{i}.png" for name in ("Red fox", "lynx_lynx", "owl/young") for i in range(12)]
    found = open_data(write_noise(tmp_path, *files), classes=True)
    assert found.labels.classes == (("red fox",), ("lynx_lynx", "lynx lynx"), ("owl",))
    for i, name in enumerate(found.labels.names):
        assert of_class(found, name) == {noise(3, 4, seed=12 * i + k).tobytes() for k in range(12)}


def test_a_picture_in_two_classes_is_refused_in_both_and_a_repeated_one_is_not(
    tmp_path,
):
    files = [f"{name}/{i}.png" for name in "ab" for i in range(9)]
    found = open_data(
        write_noise(tmp_path, *files, same={"b/3.png": "a/5.png", "a/1.png": "a/0.png"}),
        classes=True,
    )
    assert [str(refused) for refused in found.refused] == [
        "a/5.png: it is the same picture as b/3.png, which has another class",
        "b/3.png: it is the same picture as a/5.png, which has another class",
    ]
    assert (len(of_class(found, "a")), len(of_class(found, "b")), found.duplicates) == (7, 8, 1)


def test_folders_of_a_capital_and_its_small_letter_are_two_classes(tmp_path):
    found = open_data(
        write_noise(tmp_path, *[f"{name}/{number}.png" for name in "Aab" for number in range(9)]),
        classes=True,
    )
    assert found.labels.names == ("A", "a", "b")
    assert replace(PRESETS["mnist-small"].model, classes=found.labels.classes).label_of("A") == 1


NO_CLASSES = {
    "a loose picture": (
        ["a/1.png", "b/1.png", "1.png"],
        "1.png is not in a subfolder of {}, so it has no class",
    ),
    "one class": (
        ["a/1.png", "a/2.png"],
        "{} must have from 2 to 1,000 subfolders, which are the classes, not 1",
    ),
    "too many": (
        [f"{i}/1.png" for i in range(1001)],
        "{} must have from 2 to 1,000 subfolders, which",
    ),
    "one name in two forms": (
        ["caf\u00e9/1.png", "cafe\u0301/1.png"],
        "of {} do not name two classes: names are",
    ),
    "one name": (
        ["Cat/1.png", "cat/1.png"],
        "the subfolders Cat and cat of {} do not name two classes",
    ),
    "an only picture to test on": (
        ["a/0.png", "a/1.png", "b/0.png"],
        "{} has no training image of the class b",
    ),
}


@pytest.mark.parametrize("case", NO_CLASSES)
def test_folders_that_are_no_classes_are_refused(tmp_path, case):
    files, sentence = NO_CLASSES[case]
    refused(sentence.format(tmp_path), write_noise(tmp_path, *files), classes=True)


def test_a_class_without_a_readable_picture_is_refused(tmp_path):
    write_noise(tmp_path, *[f"{name}/{i}.png" for name in "ab" for i in range(3)])
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.png").write_bytes(b"?")
    (tmp_path / ".hidden").mkdir()
    refused(
        f"{tmp_path / 'c'} is a class without a picture that can be read", tmp_path, classes=True
    )


def test_two_folders_that_differ_in_an_underscore_share_no_word(tmp_path):
    files = [f"{name}/{i}.png" for name in ("a b", "a-b", "a_b") for i in range(5)]
    assert open_data(write_noise(tmp_path, *files), classes=True).labels.classes == (
        ("a b",),
        ("a-b",),
        ("a_b",),
    )


def test_an_array_has_no_labels(tmp_path):
    np.save(tmp_path / "a.npy", noise(5, 3, 3))
    refused(
        "a.npy has no labels; classes are those of MNIST, of CIFAR-10 or",
        tmp_path / "a.npy",
        classes=True,
    )
