"""The parts of a set, by the names of its folders and files: what is there to train on, to test on,
to validate on.

A name is a part if it has a word for one: train, training_set, x_test, TestData, val2017. With
other words besides, as in seg_train, another part must have the same ones (seg_test), or all names
beside it must be parts (Training, PublicTest): steam_train is none.
"""

import re
from collections.abc import Collection, Iterable

WORDS_OF = {
    "train": "train trains training trn trainset trainval",
    "test": "test tests testing tst testset eval evaluation holdout heldout",
    "validation": "val valid validation dev valset devset",
}
PARTS: dict[str, str] = {}  # the part that each word means
for part, words_of_part in WORDS_OF.items():
    PARTS |= dict.fromkeys(words_of_part.split(), part)
NEUTRAL = """
set sets data dataset folder dir part split of x y image images img imgs picture pictures photo
photos file files label labels idx ubyte arr
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
    parts: set[str] = set()
    others: list[str] = []
    for word in words(name):
        if word in PARTS:
            parts.add(PARTS[word])
        elif word not in MEANINGLESS:
            others.append(word)
    part = parts.pop() if len(parts) == 1 else ""
    return part, tuple(others)


def parts_among(names: Iterable[str], beside: Iterable[Collection[str]] = ()) -> dict[str, str]:
    """Return which of the names that a set has are parts, and which part each is. beside: the names
    in each folder."""
    # The parts that are named with the same other words: train and test of seg_train, seg_test.
    of_words: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        part, others = part_of(name)
        if part:
            of_words.setdefault(others, {})[name] = part
    parts: dict[str, str] = {}
    for others, named in of_words.items():
        if not others or len(set(named.values())) > 1:
            parts |= named
    for siblings in beside:
        parts |= parts_alone(siblings)
    return parts


def parts_alone(names: Iterable[str]) -> dict[str, str]:
    """Return which part each name is, where all are parts, and not all to train on or none; {} of
    any others."""
    parts: dict[str, str] = {}
    for name in names:
        parts[name] = part_of(name)[0]
        if not parts[name]:
            return {}
    kinds = {*parts.values()}
    return parts if "train" in kinds and len(kinds) > 1 else {}
