"""The parts of a set, by the names of its folders and files: what is there to
train on, to test on, to validate on.

A name is a part if it has a word for one: train, training_set, x_test, TestData, val2017. With
other words besides, as in seg_train, another part must have the same ones (seg_test), or all names
beside it must be parts (Training, PublicTest): steam_train is none.
"""

import re
from collections.abc import Collection, Iterable

PARTS = dict.fromkeys(("train", "trains", "training", "trn", "trainset", "trainval"), "train")
PARTS |= dict.fromkeys(("test", "tests", "testing", "tst", "testset", "eval", "evaluation"), "test")
PARTS |= dict.fromkeys(("holdout", "heldout"), "test")
PARTS |= dict.fromkeys(("val", "valid", "validation", "dev", "valset", "devset"), "validation")
NEUTRAL = """
set sets data dataset folder dir part split of x y image images img imgs picture pictures photo photos file files label
labels idx ubyte arr
"""
MEANINGLESS = frozenset(NEUTRAL.split())
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")
OUT = re.compile(r"(?<=h[eo]ld)[-_ ]out")


def words(name: str) -> list[str]:
    """Return the words of a name, in lower case, without numbers."""
    spelled = OUT.sub("out", name.replace("t10k", "test"))
    return [word.lower() for word in WORD.findall(spelled)]


def part_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Return which part a name means, "" for none, and its words that mean something else."""
    found = words(name)
    kinds = {PARTS[word] for word in found if word in PARTS}
    others = tuple(word for word in found if word not in PARTS.keys() | MEANINGLESS)
    part = kinds.pop() if len(kinds) == 1 else ""
    return part, others


def parts_among(names: Iterable[str], beside: Iterable[Collection[str]] = ()) -> dict[str, str]:
    """Return which of the names that a set has are parts, and which part each is.
    beside: the names in each folder.
    """
    found = {name: part_of(name) for name in names}
    kinds_of: dict[tuple[str, ...], set[str]] = {}
    for kind, others in found.values():
        if kind:
            kinds_of.setdefault(others, set()).add(kind)
    alone = {others for others, kinds in kinds_of.items() if others and len(kinds) == 1}
    parts = {name: kind for name, (kind, others) in found.items() if kind and others not in alone}
    for siblings in beside:
        parts |= parts_alone(siblings)
    return parts


def parts_alone(names: Iterable[str]) -> dict[str, str]:
    """Return which part each name is, where all are parts, and not all to
    train on or none; {} of any others.
    """
    parts: dict[str, str] = {}
    for name in names:
        parts[name] = part_of(name)[0]
        if not parts[name]:
            return {}
    kinds = {*parts.values()}
    return parts if "train" in kinds and len(kinds) > 1 else {}
