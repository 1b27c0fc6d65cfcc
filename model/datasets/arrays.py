"""Images of arrays: .npy and .npz files and IDX files, whatever their names, and the labels that
lie beside them.

Labels are the whole numbers in one dimension, one for each image, whose name differs in words for
images and labels alone: x_train.npy and y_train.npy, or train_images and train_labels of one .npz
file.
"""

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scanline.model.base.named_files import check_file
from scanline.model.datasets.files import GZIP, IDX, MAX_UNPACKED, RefusedError, beginning, unpacked
from scanline.model.datasets.parts import words

OF_KINDS = "x y image images img imgs data picture pictures label labels target targets class classes arr idx ubyte"
KINDS = frozenset(OF_KINDS.split())
IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # by the third byte
NUMPY = b"\x93NUMPY"
ZIP = b"PK\3\4"


def is_array(path: Path) -> bool:
    """Return whether a file is one of arrays, by its first bytes."""
    begin = beginning(path, 4)
    name = path.name.lower()
    if begin.startswith(GZIP + b"\x08"):
        return "ubyte" in name or "idx" in name
    if begin == ZIP:
        return name.endswith(".npz")
    is_idx = begin.startswith(IDX) and begin[3:] in b"\1\2\3\4"
    return is_idx or begin == NUMPY[:4]


def count(path: Path) -> int:
    """Return how many images a file holds at most."""
    try:
        return sum(len(array) for array in _arrays(path).values() if array.ndim > 2)
    except (RefusedError, ValueError, OSError):
        return 1


def images_of(path: Path) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield for each image of a file its array's name, its label or "", and the image [H, W] or
    [H, W, 3] uint8; RefusedError where there is none."""
    arrays = _arrays(path)
    labels = _labels_among(arrays)
    for beside in path.parent.iterdir():
        if beside != path and is_array(beside) and _key(beside.stem) == _key(path.stem):
            labels |= _labels_among(_arrays(beside))
    images = {name: array for name, array in arrays.items() if name not in labels}
    if not images:
        raise RefusedError("it holds labels")
    for name, array in images.items():
        labels_of_array = _labels_of(name, len(array), labels)
        for row, image in enumerate(as_images(array)):
            label = "" if labels_of_array is None else _class_name(labels_of_array[row])
            yield name, label, image


def _labels_among(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if _is_labels(array)}


def _labels_of(name: str, count: int, labels: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return the labels [n] of `count` images, by their array's name; None where there are none."""
    for other, array in labels.items():
        if _key(other) == _key(name) and len(array) == count:
            return array.reshape(-1)
    return None


def _class_name(label: np.generic) -> str:
    """Return the name of a label's class, which is the name of a folder."""
    if label.dtype.kind not in "US":
        return str(int(label))
    text = label.decode(errors="replace") if isinstance(label, bytes) else str(label)
    name = text.replace("/", "_").strip(".\0")
    return name or "_"


def _key(name: str) -> list[str]:
    return [word for word in words(name) if word not in KINDS]


def _is_labels(array: np.ndarray) -> bool:
    if array.ndim not in (1, 2) or array.size != len(array):
        return False
    if array.dtype.kind == "f":
        is_whole = array % 1 == 0
        return bool(is_whole.all())
    return array.dtype.kind in "biuUS"


def as_images(array: np.ndarray) -> np.ndarray:
    """Return an array as images [n, H, W] or [n, H, W, 3]; RefusedError where it holds none. One of
    three dimensions that ends in 3 is one image [H, W, 3]."""
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] not in (1, 3):
        array = np.moveaxis(array, 1, -1)
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    has_images = array.ndim in (3, 4) and array.shape[3:] in ((), (3,))
    if array.dtype != np.uint8 or not has_images:
        held = f"{array.dtype} {list(array.shape)}"
        raise RefusedError(f"it must hold uint8 [n, H, W] or [n, H, W, 3], not {held}")
    if array.ndim == 3 and array.shape[2] == 3 and array.size:
        array = array[np.newaxis]
    if not array.size:
        raise RefusedError(f"it holds no images: its shape is {list(array.shape)}")
    return array


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by their names; RefusedError where it is broken or large."""
    try:
        check_file(path)
        with path.open("rb") as file:
            begin = file.read(2)
        if begin == NUMPY[:2]:
            return {path.stem: np.lib.format.open_memmap(path, mode="r")}
        if begin != ZIP[:2]:
            return {path.stem: _idx(unpacked(path))}
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > MAX_UNPACKED:
                raise RefusedError(f"it unpacks to more than {MAX_UNPACKED:,} bytes")
        with np.load(path) as members:
            return {f"{path.stem} {name}": members[name] for name in members}
    except RefusedError:
        raise
    except Exception:  # numpy raises nearly anything on broken bytes
        raise RefusedError("it is a broken array") from None


def _idx(data: bytes) -> np.ndarray:
    """Return the array of an IDX file."""
    dtype = IDX_TYPES[data[2]]
    dimensions = data[3]
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    return np.frombuffer(data, dtype, offset=4 + 4 * dimensions).reshape(shape)
