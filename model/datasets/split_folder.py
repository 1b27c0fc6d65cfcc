"""The split of a folder of pictures that has one of its own: by the
names of its folders, at any depth.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from scanline.model.datasets.folder import Pictures
from scanline.model.datasets.parts import PARTS, parts_alone, parts_among
from scanline.model.datasets.sources import Refused, listed, printable

TO = {"train": "to train on", "test": "to test on", "validation": "to validate on"}


def split_by_folders(pictures: Pictures, classes: bool) -> Pictures:
    """Return the pictures of a folder that has parts, with paths without those and without what is
    above all, as archives unpack; the pictures as they are of any other folder.

    Pictures to validate on are the test pictures where there are no others; otherwise they are
    refused, as those in no part are. `classes`: so are test pictures of no class of the training
    pictures, as of sets that withhold them.
    """
    below: dict[Path, set[str]] = {}  # the names of the folders in each folder
    for folder in {
        folder
        for parent in {file.parent for file in pictures.files}
        for folder in (parent, *parent.parents)
    }:
        if folder.name:
            below.setdefault(folder.parent, set()).add(folder.name)
    kinds = parts_among({name for names in below.values() for name in names}, below.values())
    # A name below parts of several kinds is a class, also if it has a word for a part.
    kinds_above: dict[str, set[str]] = {}
    for folder, names in below.items():
        for name in names & kinds.keys():
            kinds_above.setdefault(name, set()).add(kinds.get(folder.name, ""))
    classes_too = {name for name, above in kinds_above.items() if len(above - {""}) > 1}
    part = [_part(file, kinds, classes_too) for file in pictures.files]
    by_names = parts_alone(file.stem for file in pictures.files) if set(part) == {""} else {}
    if by_names:
        part = [by_names[file.stem] for file in pictures.files]
    there = set(part)
    if there == {""}:
        return pictures
    if "train" not in there and not {"", "test"} <= there:
        return replace(
            pictures,
            notes=(f"trained on, since no folder is called train: {listed(sorted(kinds))}",),
        )
    if there == {"train", ""}:  # a class of trains
        return pictures
    if "train" not in there:
        part = [its or "train" for its in part]
    # What is left of each path begins with the class.
    inner = [
        _without_part(file, its, kinds) for file, its in zip(pictures.files, part, strict=True)
    ]
    for its in there:
        rows = [row for row, of_row in enumerate(part) if of_row == its]
        # archives repeat it
        while len(tops := {inner[row].parts[0] for row in rows}) == 1 and tops <= kinds.keys():
            for row in rows:
                inner[row] = Path(*inner[row].parts[1:])
    while (
        len(tops := {file.parts[0] if len(file.parts) > 1 else "" for file in inner}) == 1
        and "" not in tops
    ):
        inner = [Path(*file.parts[1:]) for file in inner]

    why: dict[int, str] = {}
    if classes:
        known = {file.parts[0] for file, its in zip(inner, part, strict=True) if its == "train"}
        for row, file in enumerate(inner):
            if part[row] in ("test", "validation") and (
                len(file.parts) < 2 or file.parts[0] not in known
            ):
                why[row] = "unlabelled, or of a class that no training picture has"
    test = (
        "test"
        if any(its == "test" and row not in why for row, its in enumerate(part))
        else "validation"
    )
    for row, its in enumerate(part):
        if its not in ("train", test):
            why.setdefault(
                row,
                "not used, since there are test pictures"
                if its
                else "in no folder to train or test on",
            )
    has_tests = any(its == test and row not in why for row, its in enumerate(part))
    is_test = np.array([its == test for its in part]) if has_tests else None
    above = {
        Path(*file.parts[: len(file.parts) - len(left.parts)])
        for file, left, its in zip(pictures.files, inner, part, strict=True)
        if its == "train" and file.parts[-len(left.parts) :] == left.parts
    }
    notes = [
        f"{listed([name for name in sorted(kinds) if kinds[name] == its])} {TO[its]}"
        for its in sorted(there & TO.keys())
    ]
    notes = [] if kinds.keys() <= PARTS.keys() else [", ".join(notes)]
    if by_names:
        notes = ["what is to train and to test on, the names of the files say"]
    kept = without(
        replace(pictures, is_test=is_test, classes_in=frozenset(above), notes=tuple(notes)), why
    )
    return replace(kept, files=tuple(file for row, file in enumerate(inner) if row not in why))


def without(pictures: Pictures, why: dict[int, str]) -> Pictures:
    """Return the pictures without those at some rows, which are refused for a reason."""
    if not why:
        return pictures
    rows = [row for row in range(len(pictures.files)) if row not in why]
    return replace(
        pictures,
        images=pictures.images[rows],
        files=tuple(pictures.files[row] for row in rows),
        refused=(
            *pictures.refused,
            *(Refused(printable(pictures.files[row]), why[row]) for row in sorted(why)),
        ),
        is_test=None if pictures.is_test is None else pictures.is_test[rows],
    )


def _part(file: Path, kinds: dict[str, str], classes_too: set[str]) -> str:
    """Return the part of a file; "" for none. A folder to test on within one to train on is to test
    on, unless its name is also a class."""
    found: set[str] = set()
    for name in file.parent.parts:
        if name in kinds and not (found and name in classes_too):
            found.add(kinds[name])
    return next((kind for kind in ("test", "validation", "train") if kind in found), "")


def _without_part(file: Path, part: str, kinds: dict[str, str]) -> Path:
    """Return the path without the first folder of its part, and without other parts above that."""
    names: Sequence[str] = file.parts
    place = next((place for place, name in enumerate(names) if kinds.get(name) == part), -1)
    above = [name for name in names[: max(place, 0)] if name not in kinds]
    # archives repeat it
    above = [name for number, name in enumerate(above) if name not in above[:number]]
    return Path(*above, *names[place + 1 :])
