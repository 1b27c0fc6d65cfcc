"""Data sets that --data accepts, recognised by their files: published files, a folder of pictures, a .npy array."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from scanline.model.datasets import DIGESTS, DataError
from scanline.model.datasets.source import open_data, parse_size
from tests.support import blobs
from tests.support.pictures import encode, noise


def test_files_of_a_published_set_keep_its_split_and_are_it_by_their_digest(tmp_path: Path) -> None:
    blobs.write(tmp_path)
    found = open_data(tmp_path, classes=True)
    assert (found.published, found.size, found.labels and found.labels.names) == (None, "28x28 grey", tuple("0123"))
    with mock.patch.dict(DIGESTS, mnist=open_data(tmp_path).digest):
        found = open_data(tmp_path)
    assert found.published == "mnist"
    assert (found.train == blobs.images(64, 0).reshape(64, -1)).all()
    assert (found.test == blobs.images(16, 1).reshape(16, -1)).all()
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataError, match="has neither train-images-idx3-ubyte nor"):
        open_data(tmp_path)


@pytest.mark.parametrize("at", ["MNIST/raw/NAME", "raw/NAME", "NAME/NAME", "DOTS"])
def test_published_files_are_found_where_torchvision_and_kaggle_put_them(tmp_path: Path, at: str) -> None:
    blobs.write(tmp_path)
    expected = open_data(tmp_path, classes=True)
    for file in list(tmp_path.iterdir()):
        there = tmp_path / "moved" / at.replace("NAME", file.name).replace("DOTS", file.name.replace("-idx", ".idx"))
        there.parent.mkdir(parents=True, exist_ok=True)
        file.rename(there)
    found = open_data(tmp_path / "moved", classes=True)
    assert found.digest == expected.digest


def pictures(folder: Path, *seeds: int) -> None:
    folder.mkdir(parents=True)
    for seed in seeds:
        (folder / f"{seed}.png").write_bytes(encode(noise(3, 4, seed=seed)))


def shown(images: Any) -> set[bytes]:
    return {image.tobytes() for image in images[:]}


def test_a_folder_with_parts_of_its_own_keeps_them(tmp_path: Path) -> None:
    for name, seeds in {"train/a": (0, 1, 2), "train/b": (3, 4), "val/a": (5,), "val/b": (6, 1)}.items():
        pictures(tmp_path / name, *seeds)
    found = open_data(tmp_path, classes=True)
    assert shown(found.train) == {noise(3, 4, seed=seed).tobytes() for seed in (0, 2, 3, 4)}
    assert (found.labels and found.labels.names, len(found.test)) == (("a", "b"), 2)  # 1 is in two classes
    assert [refused.file for refused in found.refused] == ["a/1.png", "b/1.png"]
    without = open_data(tmp_path)
    assert shown(without.test) == {noise(3, 4, seed=seed).tobytes() for seed in (5, 6, 1)}
    assert (len(without.train), without.duplicates) == (4, 1)
    pictures(tmp_path / "TEST" / "a", 7)
    pictures(tmp_path / "TEST" / "b", 8)
    found = open_data(tmp_path, classes=True)
    assert shown(found.test) == {noise(3, 4, seed=seed).tobytes() for seed in (7, 8)}
    assert [str(refused) for refused in found.refused] == ["val: not used, since there are test pictures"]
    # An archive that unpacks into a folder of its own has the same parts.
    (tmp_path / "data").mkdir()
    for name in ("train", "val", "TEST"):
        (tmp_path / name).rename(tmp_path / "data" / name)
    assert open_data(tmp_path, classes=True).digest == found.digest


def write_parquet(path: Path, seeds: Sequence[int], names: Sequence[str] = ("cat", "dog")) -> None:
    """Write pictures of noise in the form that Hugging Face's `datasets` writes, labels in turn."""
    import pyarrow  # late, as below: it takes as long as all other imports of these tests
    from pyarrow import parquet

    pictures = [{"bytes": encode(noise(3, 4, seed=seed)), "path": f"{seed}.png"} for seed in seeds]
    table = pyarrow.table({"image": pictures, "label": [seed % 2 for seed in seeds]})
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    about = json.dumps({"info": {"features": features}})
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table.replace_schema_metadata({"huggingface": about}), path)


def test_parquet_files_are_folders_of_parts_and_classes(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    write_parquet(tmp_path / "data" / "train-00000-of-00002.parquet", range(4))
    write_parquet(tmp_path / "data" / "train-00001-of-00002.parquet", range(4, 6))
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", (6, 7))
    found = open_data(tmp_path, classes=True)
    assert shown(found.train) == {noise(3, 4, seed=seed).tobytes() for seed in range(6)}
    assert shown(found.test) == {noise(3, 4, seed=seed).tobytes() for seed in (6, 7)}
    assert found.labels is not None
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
    for name, sentence in (("text", "has no column of pictures: its columns are text"), ("broken", "is not a Parquet")):
        with pytest.raises(DataError, match=sentence):
            open_data(tmp_path / f"{name}.parquet")


def test_links_are_followed_once_and_what_macos_adds_is_passed_over(tmp_path: Path) -> None:
    pictures(tmp_path / "real" / "a", 0, 1, 2)
    pictures(tmp_path / "elsewhere", 3, 4)
    pictures(tmp_path / "real" / "__MACOSX" / "a", 5)
    (tmp_path / "real" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "real" / "loop").symlink_to(tmp_path / "real")
    found = open_data(tmp_path / "real")
    assert len(found.train) + len(found.test) == 5
    assert [str(refused) for refused in found.refused] == ["loop: it is a link to a folder that is read already"]
    (tmp_path / "real" / "loop").unlink()
    labels = open_data(tmp_path / "real", classes=True).labels
    assert labels is not None
    assert labels.names == ("a", "b")


def test_a_folder_is_split_by_content(tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / f"{i}.png").write_bytes(encode(noise(3, 4, seed=i % 30)))
    (tmp_path / "broken.png").write_bytes(b"?")
    found = open_data(tmp_path)
    assert (found.height, found.width, found.channels, found.published) == (3, 4, 1, None)
    assert (len(found.train) + len(found.test), found.duplicates, len(found.refused)) == (30, 10, 1)
    assert min(len(found.train), len(found.test)) >= 1


@pytest.mark.parametrize(("shape", "size"), [((30, 3, 4), "4x3 grey"), ((30, 3, 4, 3), "4x3 RGB")])
def test_an_array_is_mapped_and_not_read(tmp_path: Path, shape: tuple[int, ...], size: str) -> None:
    images = noise(*shape)
    np.save(tmp_path / "a.npy", images)
    found = open_data(tmp_path / "a.npy")
    assert found.size == size
    assert not isinstance(found.train, np.ndarray)
    assert isinstance(found.train.images, np.memmap)
    both = {row.tobytes() for side in (found.train, found.test) for row in side[:]}
    assert both == {image.tobytes() for image in images}


WRONG: dict[str, tuple[Any, str]] = {
    "floats": (np.zeros((4, 3, 3)), "must hold uint8 [n, H, W] or [n, H, W, 3], not float64 [4, 3, 3]"),
    "two channels": (np.zeros((4, 3, 3, 2), np.uint8), "not uint8 [4, 3, 3, 2]"),
    "no images": (np.zeros((0, 3, 3), np.uint8), "holds no images: its shape is [0, 3, 3]"),
    "one that repeats": (np.zeros((4, 3, 3), np.uint8), "holds one distinct picture"),
    "objects": (np.array([{}, None], object), "is truncated or not a .npy file of bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_array_of_anything_else_is_refused(tmp_path: Path, case: str) -> None:
    array, sentence = WRONG[case]
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=re.escape(sentence)):
        open_data(tmp_path / "a.npy")


@pytest.mark.parametrize("damage", ["cut", "head", "another kind", "a shape beyond memory"])
def test_a_damaged_array_is_refused(tmp_path: Path, damage: str) -> None:
    np.save(tmp_path / "a.npy", noise(5, 3, 3))
    data = (tmp_path / "a.npy").read_bytes()
    large = data.replace(b"(5, 3, 3), }" + b" " * 20, b"(5, 3, 99999999999999999999), }".ljust(32))
    damaged = {"cut": data[:-1], "head": data[:9], "another kind": b"PK" + data[2:], "a shape beyond memory": large}
    (tmp_path / "a.npy").write_bytes(damaged[damage])
    assert damaged[damage] != data
    with pytest.raises(DataError, match=re.escape("a.npy is truncated or not a .npy file of bytes")):
        open_data(tmp_path / "a.npy")


def test_size_and_grey_are_for_folders(tmp_path: Path) -> None:
    blobs.write(tmp_path)
    np.save(tmp_path / "a.npy", noise(5, 3, 3))
    for path, options in ((tmp_path, {"size": (8, 8)}), (tmp_path / "a.npy", {"grey": True})):
        with pytest.raises(
            DataError, match=re.escape(f"--size and --grey are for a folder of pictures, not for {path}")
        ):
            open_data(path, **options)  # type: ignore[arg-type]


def test_other_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match=re.escape("a.zip is neither a folder nor a .npy or .parquet file")):
        open_data(tmp_path / "a.zip")
    (tmp_path / "train.csv").write_text("label,pixel0\n1,0\n")
    (tmp_path / "letters-idx3-ubyte").write_bytes(b"\0\0\x08\x03")
    for name, sentence in (("train.csv", "is a csv table; make an array"), ("letters-idx3-ubyte", "is an IDX file")):
        with pytest.raises(DataError, match=sentence):
            open_data(tmp_path / name)
    with pytest.raises(DataError, match="nowhere does not exist"):
        open_data(tmp_path / "nowhere")


def test_sizes() -> None:
    assert parse_size("32") == (32, 32)
    assert parse_size("48x32") == parse_size("48X32") == (48, 32)
    for wrong in ("", "0", "-3", "4x", "x4", "3x0", "a", "4.5", "99999x99999"):
        with pytest.raises(DataError, match=re.escape(f"like 48x32, not {wrong!r}")):
            parse_size(wrong)
