"""The split of a folder of pictures that has one of its own: by the names of its folders, at any
depth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scanline.model.datasets.folder import Pictures
from scanline.model.datasets.parts import PARTS, parts_alone, parts_among
from scanline.model.datasets.sources import Refused, listed, printable

TO = {"train": "to train on", "test": "to test on", "validation": "to validate on"}


@dataclass
class _Row:
    """A picture of the folder."""

    file: Path
    part: str  # "" for none
    left: Path  # of its path, without parts and what is above all: it begins with the class
    refused: str = ""  # why


def split_by_folders(pictures: Pictures, classes: bool) -> Pictures:
    """Return the pictures of a folder that has parts, with paths without those and without what is
    above all, as archives unpack; the pictures as they are of any other folder.

    Pictures to validate on are the test pictures where there are no others; otherwise they are
    refused, as those in no part are. `classes`: so are test pictures of no class of the training
    pictures, as of sets that withhold them.
    """
    below = _names_below(pictures.files)
    kinds = parts_among(set().union(*below.values()), below.values())
    classes_too = _classes_too(below, kinds)
    rows: list[_Row] = []
    for file in pictures.files:
        part = _part(file, kinds, classes_too)
        rows.append(_Row(file, part, left=file))
    by_names: dict[str, str] = {}
    if not any(row.part for row in rows):
        by_names = parts_alone(row.file.stem for row in rows)
    if by_names:
        for row in rows:
            row.part = by_names[row.file.stem]
    there = {row.part for row in rows}
    if there in ({""}, {"train", ""}):  # no part, or a class of trains
        return pictures
    if "train" not in there and not {"", "test"} <= there:
        note = f"trained on, since no folder is called train: {listed(sorted(kinds))}"
        return replace(pictures, notes=(note,))
    if "train" not in there:
        for row in rows:
            row.part = row.part or "train"
    _cut_parts(rows, kinds)

    if classes:
        _refuse_unlabelled(rows)
    has_tests = any(row.part == "test" and not row.refused for row in rows)
    test = "test" if has_tests else "validation"
    for row in rows:
        if not row.part:
            row.refused = "in no folder to train or test on"
        elif row.part not in ("train", test):
            row.refused = row.refused or "not used, since there are test pictures"

    is_test = None
    if any(row.part == test and not row.refused for row in rows):
        is_test = np.array([row.part == test for row in rows])

    # The folders that have the classes of the training pictures.
    above: set[Path] = set()
    for row in rows:
        left = row.left.parts
        parts = row.file.parts
        cut = len(parts) - len(left)
        if row.part == "train" and parts[cut:] == left:
            above.add(Path(*parts[:cut]))
    notes = _notes(kinds, there, bool(by_names))
    pictures = replace(pictures, is_test=is_test, classes_in=frozenset(above), notes=notes)
    why = {number: row.refused for number, row in enumerate(rows) if row.refused}
    files = tuple(row.left for row in rows if not row.refused)
    return replace(without(pictures, why), files=files)


def _names_below(files: Sequence[Path]) -> dict[Path, set[str]]:
    """Return the names of the folders in each folder above files."""
    folders: set[Path] = set()
    for parent in {file.parent for file in files}:
        folders.update((parent, *parent.parents))
    below: dict[Path, set[str]] = {}
    for folder in folders:
        if folder.name:
            below.setdefault(folder.parent, set()).add(folder.name)
    return below


def _classes_too(below: dict[Path, set[str]], kinds: dict[str, str]) -> set[str]:
    """Return the names below parts of several kinds: each is a class, also if it has a word for a
    part."""
    kinds_above: dict[str, set[str]] = {}
    for folder, names in below.items():
        above = kinds.get(folder.name)
        for name in names & kinds.keys():
            if above is not None:
                kinds_above.setdefault(name, set()).add(above)
    return {name for name, above in kinds_above.items() if len(above) > 1}


def _cut_parts(rows: list[_Row], kinds: dict[str, str]) -> None:
    """Set what is left of each path."""
    for part in {row.part for row in rows}:
        of_part = [row for row in rows if row.part == part]
        for row in of_part:
            row.left = _without_part(row.file, part, kinds)
        # archives repeat it
        while _top(of_part) in kinds:
            _cut_top(of_part)
    while _top(rows) and all(len(row.left.parts) > 1 for row in rows):
        _cut_top(rows)


def _top(rows: list[_Row]) -> str:
    """Return the folder, or the file, that all paths begin with; "" for none."""
    tops = {row.left.parts[0] for row in rows}
    if len(tops) == 1:
        return tops.pop()
    return ""


def _cut_top(rows: list[_Row]) -> None:
    for row in rows:
        row.left = Path(*row.left.parts[1:])


def _refuse_unlabelled(rows: list[_Row]) -> None:
    classes = {row.left.parts[0] for row in rows if row.part == "train"}
    for row in rows:
        parts = row.left.parts
        is_labelled = len(parts) > 1 and parts[0] in classes
        if row.part in ("test", "validation") and not is_labelled:
            row.refused = "unlabelled, or of a class that no training picture has"


def _notes(kinds: dict[str, str], there: set[str], by_names: bool) -> tuple[str, ...]:
    """Return what a user should know of the split."""
    if by_names:
        return ("what is to train and to test on, the names of the files say",)
    if kinds.keys() <= PARTS.keys():
        return ()
    uses = []
    for its in sorted(there & TO.keys()):
        names = [name for name in sorted(kinds) if kinds[name] == its]
        uses.append(f"{listed(names)} {TO[its]}")
    return (", ".join(uses),)


def without(pictures: Pictures, why: dict[int, str]) -> Pictures:
    """Return the pictures without those at some rows, which are refused for a reason."""
    if not why:
        return pictures
    rows: list[int] = []
    refused = list(pictures.refused)
    for row, file in enumerate(pictures.files):
        if row in why:
            refused.append(Refused(printable(file), why[row]))
        else:
            rows.append(row)
    is_test = pictures.is_test
    if is_test is not None:
        is_test = is_test[rows]
    return replace(
        pictures,
        images=pictures.images[rows],
        files=tuple(pictures.files[row] for row in rows),
        refused=tuple(refused),
        is_test=is_test,
    )


def _part(file: Path, kinds: dict[str, str], classes_too: set[str]) -> str:
    """Return the part of a file; "" for none. A folder to test on within one to train on is to test
    on, unless its name is also a class."""
    parts: set[str] = set()
    for name in file.parent.parts:
        if name in kinds and not (parts and name in classes_too):
            parts.add(kinds[name])
    for part in ("test", "validation", "train"):
        if part in parts:
            return part
    return ""


def _without_part(file: Path, part: str, kinds: dict[str, str]) -> Path:
    """Return the path without the first folder of its part, and without other parts above that."""
    above: list[str] = []
    for place, name in enumerate(file.parts):
        if kinds.get(name) == part:
            return Path(*above, *file.parts[place + 1 :])
        # archives repeat it
        if name not in kinds and name not in above:
            above.append(name)
    return file
