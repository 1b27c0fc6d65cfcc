"""The classes of a set of images and the label of each image, as `ModelConfig.classes` has
them: label 0 means no class, k + 1 class k. They are those of a published set, or the
subfolders of a folder of pictures.

A class that no training image shows cannot be learnt, and is a DataError.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from scanline.model.base.class_names import plain
from scanline.model.base.config import MAX_CLASSES
from scanline.model.datasets.files import DataError
from scanline.model.datasets.folder import Pictures
from scanline.model.datasets.parts import PARTS
from scanline.model.datasets.sources import left_out, passed_over, printable
from scanline.model.datasets.split_folder import without

ROW = re.compile(r":\d+$")  # of a table or an array
Words = tuple[tuple[str, ...], ...]  # for each class the words that mean it, its name first


@dataclass(frozen=True)
class Labels:
    """The classes of a set, and the labels of its training and test images."""

    classes: Words
    train: np.ndarray  # [n] int64, from 1 on
    test: np.ndarray  # [m] int64, from 1 on

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(words[0] for words in self.classes)

    @property
    def untested(self) -> tuple[str, ...]:
        """The names of the classes that no test image shows."""
        return _missing(self.classes, self.test)

    def digest(self, images: str) -> str:
        """Return the digest of images of the digest `images` together with their labels: SHA-256,
        hexadecimal."""
        digest = sha256(f"{images}{self.classes}".encode())
        for labels in (self.train, self.test):
            digest.update(labels.astype("<i8").tobytes())
        return digest.hexdigest()


def checked(classes: Words, train: np.ndarray, test: np.ndarray, path: Path) -> Labels:
    """Return the labels of a set at `path`; DataError where a class has no training image."""
    missing = _missing(classes, train)
    if missing:
        kind = "class" if len(missing) == 1 else "classes"
        raise DataError(f"{path} has no training image of the {kind} {', '.join(missing)}")
    return Labels(classes, train, test)


def _missing(classes: Words, labels: np.ndarray) -> tuple[str, ...]:
    counts = np.bincount(labels, minlength=len(classes) + 1)[1:]
    return tuple(words[0] for words, count in zip(classes, counts, strict=True) if not count)


def of_folders(pictures: Pictures, folder: Path) -> tuple[Pictures, Words, np.ndarray]:
    """Return the pictures of a folder, their classes, which are its subfolders, and the label [n]
    int64 of each.

    A picture that is in two classes is refused in both, as is a row of a table without a label
    where others have one. DataError where a picture is in no subfolder, a subfolder has no picture,
    two subfolders have one name of several letters but for capitals, or there are fewer than 2 or
    more than 1,000.
    """
    pictures = _in_subfolders(pictures, folder)
    subfolders = _subfolders(pictures, folder)
    label_of = {name: number for number, name in enumerate(subfolders, start=1)}
    labels = np.array([label_of[file.parts[0]] for file in pictures.files], np.int64)
    doubtful = _in_two_classes(pictures, labels)
    labels = np.delete(labels, list(doubtful))
    return without(pictures, doubtful), _words(subfolders, folder), labels


def _in_subfolders(pictures: Pictures, folder: Path) -> Pictures:
    """Return the pictures without unlabelled rows of tables; DataError where a picture is in no
    subfolder, or no row is labelled."""
    loose = [row for row, file in enumerate(pictures.files) if len(file.parts) < 2]
    if not loose:
        return pictures
    if not all(ROW.search(pictures.files[row].name) for row in loose):
        where = folder.joinpath(*sorted(pictures.classes_in)[0].parts[:1])
        raise DataError(
            f"{printable(pictures.files[loose[0]])} is not in a subfolder of {where}, so it has no"
            " class: the subfolders are the classes"
        )
    if len(loose) == len(pictures.files):
        said = f"; {left_out(pictures.refused)}" if pictures.refused else ""
        raise DataError(
            f"{folder} has no labels that are known as such, whole numbers or words beside the"
            f" images{said}"
        )
    return without(pictures, dict.fromkeys(loose, "unlabelled"))


def _subfolders(pictures: Pictures, folder: Path) -> list[str]:
    """Return the names of the classes' subfolders; DataError where one has no picture, or they are
    too few or too many."""
    with_pictures = {file.parts[0] for file in pictures.files}
    names = set(with_pictures)
    for inner in pictures.classes_in:
        root = folder / inner
        # files of Parquet are in none
        for path in root.iterdir() if root.is_dir() else ():
            if path.is_dir() and not passed_over(path.name) and path.name.lower() not in PARTS:
                names.add(path.name)
    empty = sorted(names - with_pictures)
    if empty:
        raise DataError(
            f"{folder / printable(Path(empty[0]))} is a class without a picture that can be read"
        )
    if not 2 <= len(names) <= MAX_CLASSES:
        raise DataError(
            f"{folder} must have from 2 to {MAX_CLASSES:,} subfolders, which are the classes, not"
            f" {len(names)}"
        )
    return sorted(names)


def _in_two_classes(pictures: Pictures, labels: np.ndarray) -> dict[int, str]:
    """Return why the pictures that are in several classes are refused, by their rows."""
    rows_of: dict[bytes, list[int]] = {}
    for row, image in enumerate(pictures.images):
        rows_of.setdefault(sha256(image.tobytes()).digest(), []).append(row)
    refused: dict[int, str] = {}
    for rows in rows_of.values():
        for row in rows:
            others = [other for other in rows if labels[other] != labels[row]]
            if others:
                other = printable(pictures.files[others[0]])
                refused[row] = f"it is the same picture as {other}, which has another class"
    return dict(sorted(refused.items()))


def _words(subfolders: Sequence[str], folder: Path) -> Words:
    """Return the words of classes: the subfolder's name, and the name with spaces for its
    underscores and hyphens."""
    names: dict[str, str] = {}
    for subfolder in subfolders:
        name = printable(Path(subfolder))
        if len(name) > 1:  # A and a are two classes
            name = plain(name)
        if name in names or not name:
            shown = f"{names[name]} and {subfolder}" if name in names else subfolder
            raise DataError(
                f"the subfolders {shown} of {folder} do not name two classes: names are lower case"
                " and NFC"
            )
        names[name] = subfolder
    taken = set(names)
    words: list[tuple[str, ...]] = []
    for name in names:
        spaced = " ".join(name.replace("_", " ").replace("-", " ").split())
        if spaced in taken or not spaced:
            words.append((name,))
        else:
            taken.add(spaced)
            words.append((name, spaced))
    return tuple(words)
