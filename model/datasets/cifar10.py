"""CIFAR-10 as published (Krizhevsky, 2009): the binary version's batches, or the python version's,
in its tar or not.

A record is 3,072 bytes in planes (red, green, blue); ours are interleaved, r1 g1 b1 r2 ... The
python version's batches are pickles: they are read by an unpickler that builds only lists, dicts,
strings and a stand-in for arrays, because a crafted pickle can crash numpy's own classes.
"""

import io
import pickle
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from scanline.model.datasets.files import MAX_UNPACKED, DataError, read, unpacked

BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
TAR = "cifar-10-python.tar.gz"
# SHA-256 of the training images of `load`
DIGEST = "2c961a5f1f799cfc47fe06f45f32b65986d7f941c2b74b41a48078bca5bf1ec6"
WORDS = (  # as ModelConfig.classes
    ("airplane", "aeroplane", "plane"),
    ("automobile", "car"),
    ("bird",),
    ("cat",),
    ("deer",),
    ("dog",),
    ("frog",),
    ("horse",),
    ("ship", "boat"),
    ("truck", "lorry"),
)
CLASSES = tuple(words[0] for words in WORDS)
PIXELS = 3072
Batch = tuple[np.ndarray, np.ndarray]  # pixels [n, 3072] in planes, labels [n], both uint8
# exceptions of the unpickler on bytes that are not a pickle
_NO_PICKLE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    # where it reads a length of terabytes
    MemoryError,
    OverflowError,
)


def load(directory: Path, split: str) -> np.ndarray:
    """Return the images [50000 or 10000, 3072] uint8, channels innermost."""
    planes = np.concatenate([pixels for pixels, _ in _batches(directory, split, labelled=False)])
    interleaved = planes.reshape(-1, 3, 1024).transpose(0, 2, 1)
    return np.ascontiguousarray(interleaved).reshape(-1, PIXELS)


def labels(directory: Path, split: str) -> np.ndarray:
    """Return the class [50000 or 10000] uint8 of each image of `load`, an index in CLASSES."""
    return np.concatenate([labels for _, labels in _batches(directory, split, labelled=True)])


def _batches(directory: Path, split: str, labelled: bool) -> list[Batch]:
    if (directory / TAR).is_file():
        return _from_tar(directory / TAR, split, labelled)
    folder = _python_folder(directory)
    if folder is None:
        return _from_binary(_binary_folder(directory) or directory, split)
    return [_unpickled(folder, name, unpacked(folder / name), labelled) for name in BATCHES[split]]


def is_in(directory: Path) -> bool:
    """Return whether files of the set are in a directory."""
    folder = _binary_folder(directory) or _python_folder(directory)
    return folder is not None or (directory / TAR).is_file()


def _python_folder(directory: Path) -> Path | None:
    """Return the folder of the python version's batches, None where they are not there."""
    for folder in (directory, directory / "cifar-10-batches-py"):
        if (folder / "data_batch_1").is_file():
            return folder
    return None


def _binary_folder(directory: Path) -> Path | None:
    """Return the folder of the binary version's batches, None where they are not there."""
    for folder in (directory, directory / "cifar-10-batches-bin"):
        if any(folder.glob("*_batch*.bin*")):
            return folder
    return None


def _from_binary(folder: Path, split: str) -> list[Batch]:
    batches = []
    for name in BATCHES[split]:
        path, data = read(folder, f"{name}.bin")
        if not data or len(data) % (1 + PIXELS):
            raise DataError(
                f"{path} is truncated or wrong: {len(data)} bytes are not whole records of 3,073"
            )
        records = np.frombuffer(data, np.uint8).reshape(-1, 1 + PIXELS)
        if records[:, 0].max() > 9:
            raise DataError(f"{path} is not CIFAR-10: a record has the label {records[:, 0].max()}")
        batches.append((records[:, 1:], records[:, 0]))
    return batches


def _from_tar(path: Path, split: str, labelled: bool) -> list[Batch]:
    members = {f"cifar-10-batches-py/{name}": name for name in BATCHES[split]}
    batches = {}
    try:
        with tarfile.open(path, "r:*") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.name in members else None
                if file is None:
                    continue
                if member.size > MAX_UNPACKED:
                    raise DataError(f"{path}: {member.name} has more than {MAX_UNPACKED:,} bytes")
                batches[member.name] = _unpickled(path, member.name, file.read(), labelled)
    except (tarfile.TarError, EOFError, OSError, zlib.error):
        raise DataError(f"{path} is truncated or not a tar file") from None
    missing = sorted(set(members) - set(batches))
    if missing:
        raise DataError(f"{path} lacks {missing[0]}")
    return [batches[name] for name in members]


def _unpickled(path: Path, name: str, data: bytes, labelled: bool) -> Batch:
    try:
        batch = _ArraysOnly(io.BytesIO(data), encoding="latin1").load()
        # bytes where Python 3 wrote what it read
        pixels = batch["data"] if "data" in batch else batch[b"data"]
        listed = batch.get("labels", batch.get(b"labels"))
    except _NO_PICKLE as error:
        raise DataError(f"{path}: {name} is not a CIFAR-10 batch: {error}") from None
    try:
        rows = pixels.rows()
    except (AttributeError, TypeError, ValueError):
        raise DataError(f"{path}: {name} does not hold rows of 3,072 bytes") from None
    if not labelled:
        return rows, np.empty(0, np.uint8)
    if (
        not isinstance(listed, list)
        or len(listed) != len(rows)
        or any(label not in range(10) for label in listed)
    ):
        raise DataError(
            f"{path}: {name} does not hold a label from 0 to 9 for each of its {len(rows)} images"
        )
    return rows, np.array(listed, np.uint8)


class _Type:
    """A stand-in for numpy.dtype that keeps its name."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """A stand-in for a numpy array that keeps its pickled state, which `rows` checks."""

    state: tuple[Any, ...]

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def rows(self) -> np.ndarray:
        """Return the array [n, 3072] uint8; AttributeError, TypeError or ValueError where it is
        anything else."""
        _, (count, width), kind, by_columns, raw = self.state
        if kind.name != "u1" or width != PIXELS:
            raise ValueError(f"{count} x {width} of {kind.name}")
        # Python 2 did not distinguish them
        raw = raw.encode("latin1") if isinstance(raw, str) else raw
        return np.frombuffer(raw, np.uint8).reshape(count, width, order="F" if by_columns else "C")


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that builds lists, dicts, strings and stand-ins for arrays, and refuses any
    other class."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _Array
        if module == "numpy" and name in ("ndarray", "dtype"):
            return _Type if name == "dtype" else _Array
        # how Python 3 writes bytes in protocol 2, always as latin1
        if module == "_codecs" and name == "encode":
            return lambda text, _: text.encode("latin1")
        asked = f"{module}.{name}"
        raise pickle.UnpicklingError(f"it asks for {asked!r}")
