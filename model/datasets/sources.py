"""The pictures at a path: one walk for every command, over files, rows of Parquet files,
and images of arrays (.npy, .npz, IDX). A file is what its bytes say, whatever its name;
each one that is left out has a reason."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scanline.model.base.named_files import read_file
from scanline.model.datasets import arrays, parquet
from scanline.model.datasets.files import LARGEST_FILE, DataError, RefusedError
from scanline.model.datasets.parts import part_of
from scanline.model.datasets.recognised import what_it_is

Source = Path | bytes | np.ndarray  # a file, its bytes, or an image [H, W] or [H, W, 3] uint8
ABOUT = "README.md"  # what a folder says of itself
DIGITS = re.compile(r"(\d+)")
UNREADABLE = "it cannot be read"
ADDED = ("__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information")
NAMED = 20  # files of a line; a folder may hold thousands


@dataclass(frozen=True)
class Refused:
    """A file that was not used."""

    file: str  # relative to the folder
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


def left_out(refused: Sequence[Refused]) -> str:
    """Return the line that says what is left out: how many files, and which for each reason."""
    files_of: dict[str, list[str]] = {}
    for file in refused:
        files_of.setdefault(file.reason, []).append(file.file)
    reasons = [f"{listed(files)}: {reason}" for reason, files in files_of.items()]
    more = f"; and {len(reasons) - NAMED:,} more reasons" if len(reasons) > NAMED else ""
    return f"{len(refused):,} left out: {'; '.join(reasons[:NAMED])}{more}"


def longest_reason(refused: Sequence[Refused]) -> Refused:
    """Return what is known best of files that are left out: it says how one can be read."""
    return max(refused, key=lambda file: len(file.reason))


def listed(names: Sequence[str]) -> str:
    """Return the first names of many."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def sources(root: Path, refused: list[Refused]) -> Iterator[tuple[Path, Source]]:
    """Yield the pictures of a file, or of the files below a folder, each with its path relative to
    the folder. A row of a table and an image of an array are called FILE:ROW, in a folder of the
    file's part and in one of their class.

    Arrays that hold no images are added to `refused`.
    """
    for path in [root] if root.is_file() else files_below(root, refused):
        name = Path(path.name) if path == root else path.relative_to(root)
        if parquet.is_parquet(path):
            for row, (label, data) in enumerate(parquet.pictures_of(path)):
                yield _place(name, path.stem, label, row), data
        elif arrays.is_array(path):
            rows = 0
            try:
                for array, label, image in arrays.images_of(path):
                    yield _place(name, array, label, rows), image
                    rows += 1
            except (RefusedError, DataError) as error:
                refused.append(Refused(printable(name), str(error)))
        elif name != Path(ABOUT):
            yield name, path


def _place(file: Path, array: str, label: str, row: int) -> Path:
    """Return the path of a row of a file, whose label is its class, or without one the folder of
    the file."""
    above = [folder for folder in file.parent.parts if not label or part_of(folder)[0]]
    inside = [name for name in (part_of(array)[0], label) if name]
    return Path(*above, *inside, f"{file.name}:{row}")


def count(root: Path) -> int:
    """Return how many pictures `sources` yields at most; DataError where a table says something
    impossible."""
    total = 0
    for path in [root] if root.is_file() else files_below(root, []):
        if parquet.is_parquet(path):
            total += parquet.rows_of(path)
        elif arrays.is_array(path):
            total += arrays.count(path)
        else:
            total += 1
    return total


def picture_bytes(source: Path | bytes) -> bytes:
    """Return the bytes of a picture; RefusedError for a file that no picture can be."""
    if isinstance(source, Path):
        if not source.is_file():  # a pipe would be waited for
            exists = source.exists()
            raise RefusedError("it is not a regular file" if exists else "it is a link to nothing")
        what = what_it_is(source)
        if what:
            raise RefusedError(f"it is {what}")
        if source.stat().st_size > LARGEST_FILE:
            raise RefusedError(f"it has more than the maximum of {LARGEST_FILE:,} bytes")
        try:
            source = read_file(source)
        except OSError as error:
            raise RefusedError(f"{UNREADABLE}: {error.strerror}") from None
    if not source:
        raise RefusedError("it is empty")
    return source


def passed_over(name: str) -> bool:
    """Return whether a file or folder is not looked at: a hidden one, or what macOS adds to its
    archives and network drives to folders, thumbnails and deleted files."""
    return name.startswith(".") or name in ADDED


def natural(name: str) -> list[tuple[int, str]]:
    """Return the key by which names are in order: 2.png comes before 10.png."""
    key: list[tuple[int, str]] = []
    for place, part in enumerate(DIGITS.split(name)):
        is_number = place % 2 == 1
        key.append((int(part) if is_number else 0, part))
    return key


def files_below(folder: Path, refused: list[Refused]) -> Iterator[Path]:
    """Yield the files below a folder, in the order of their names; links to folders are followed,
    each folder once.

    Folders that cannot be listed, and links to one that is read elsewhere, are added to `refused`.
    """
    read = {_identity(folder)}

    def is_new(path: Path) -> bool:
        identity = _identity(path)
        if identity in read:
            name = printable(path.relative_to(folder))
            refused.append(Refused(name, "it links to a folder that is read already"))
            return False
        read.add(identity)
        return True

    def refuse(error: OSError) -> None:
        name = printable(Path(error.filename).relative_to(folder))
        refused.append(Refused(name, f"{UNREADABLE}: {error.strerror}"))

    for above, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        folders.sort(key=natural)
        # os.walk goes into those that stay in its list
        folders[:] = [
            name for name in folders if not passed_over(name) and is_new(Path(above, name))
        ]
        for name in sorted(names, key=natural):
            if not passed_over(name):
                yield Path(above, name)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def printable(path: Path) -> str:
    """Return a file's name as it can be printed on one line, whatever its bytes are."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(path))
