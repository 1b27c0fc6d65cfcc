"""Class names and prompts, and the labels that they mean: 0 for no class, k + 1 for class k.

Case matters only where two classes differ in nothing else, as A and a do. How letters with accents
are encoded does not matter, nor how many spaces are between words.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from scanline.kernels.philox_rounds import uniform_pair
from scanline.model.base import config as configs
from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput, plain_value, shown

ANY = "any"  # means a class for each image, drawn, unless a class of the model has this name
NONE = "none"  # means no class, also where the model has a default, unless a class has this name
MAX_NAMES = 100  # names in a message
# classes of a list that a client sends; their names take some milliseconds to look up
MAX_LISTED = 1024
# a name, or a list of names: see `as_class`
ClassNames: TypeAlias = npt.ArrayLike | Sequence[str | None]
DRAW = 2**32 - 1  # in the place of a byte's position: the random number of an image's class


def as_class(value: ClassNames | None) -> str | list[str | None] | None:
    """Return the name that a user gives, or the list of names; InvalidInput where it
    is none. A whole number is a name, such as 7 of a digit; labels of a data set
    come as numbers, arrays and tensors."""
    value = plain_value(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_as_name(name) for name in value]
    return _as_name(value)


def _as_name(value: Any) -> str | None:
    value = plain_value(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(int(value))
    if not isinstance(value, str | None):
        raise InvalidInput(
            f"class must be a name, or a list of names, not {shown(value)}.", "class"
        )
    return value


def label_of_class(config: ModelConfig, name: ClassNames | None) -> int:
    """Return the label of the class of this name or word, 0 for None and "none"; InvalidInput
    where there is none, or it is a list."""
    text = as_class(name)
    if text is None:
        return 0
    if not isinstance(text, str):
        reason = "a list of classes is for images that are painted from nothing; give one class"
        raise InvalidInput(f"class: {reason}.", "class")
    folded = plain(text)
    label = config.label_of(text)
    if label:
        return label
    if folded == NONE:
        return 0
    if not config.classes:
        raise InvalidInput("This model knows no classes; leave class out.", "class")
    if folded == ANY:
        raise InvalidInput(
            'class "any" is for images that are painted from nothing; leave class out.', "class"
        )
    raise InvalidInput(f"class must be one of {_names(config)}, not {text!r}.", "class")


def is_any(config: ModelConfig, text: str | None) -> bool:
    """Return whether a text asks for a class of each image that is drawn."""
    return bool(config.classes) and plain(text or "") == ANY and ANY not in config.labels


def labels_of_list(config: ModelConfig, names: Sequence[str | None]) -> tuple[int, ...]:
    """Return the label of each class of a list; InvalidInput where one names no class, or the list
    is empty."""
    if not names:
        raise InvalidInput("class must list at least one class.", "class")
    labels = []
    # up to the first one that is wrong: a long list of strange names costs no more than one
    for name in names:
        if is_any(config, name):
            raise InvalidInput(
                'class "any" cannot be in a list of classes; name each of them.', "class"
            )
        labels.append(label_of_class(config, name))
    return tuple(labels)


def listed_in(config: ModelConfig, text: str, param: str = "class") -> list[str]:
    """Return the characters of a text, such as 2026, if each is a class by itself and the
    text is none; else none. As a class, any and none mean what they do elsewhere, also
    where a, n, y, o and e are classes."""
    if plain(text, param) in (ANY, NONE) and param == "class":
        return []
    characters = list(configs.spaced(text))
    if not 1 < len(characters) <= MAX_LISTED or config.label_of(text):
        return []
    if not all(map(config.label_of, characters)):
        return []
    return characters


def drawn_label(classes: int, seed: int, index: int) -> int:
    """Return the label of an image whose class is drawn: of seed and index alone, every class
    equally likely."""
    return 1 + int(classes * uniform_pair(seed, index, DRAW)[0])


def label_of_prompt(config: ModelConfig, text: str) -> int:
    """Return the label of the one class that a prompt names, as a whole word in
    any sentence; 0 for an empty prompt.

    InvalidInput where it names no class, or several.
    """
    if not plain(text, "prompt"):
        return 0
    if not config.classes:
        raise _refused("This model knows no classes; leave prompt out or empty.")
    if label := config.label_of(text):  # a word that no sentence could hold on its own, such as "+"
        return label
    meant = sorted(_named(config, configs.spaced(text)))
    if len(meant) == 1:
        return meant[0]
    if meant:
        both = " and ".join(config.class_names[label - 1] for label in meant[:2])
        raise _refused(
            f"prompt must name one class, not {both}; this model knows {_names(config)}."
        )
    raise _refused(f"prompt names no class of this model, which knows {_names(config)}.")


def _named(config: ModelConfig, text: str) -> set[int]:
    """Return the labels that a text names as whole words. Its time is the text's, however many
    words there are."""
    tokens = [
        (token[0].lower(), token.start(), token.end()) for token in configs.TOKEN.finditer(text)
    ]
    labels: set[int] = set()
    place = 0
    while place < len(tokens):
        length = 1
        if tokens[place][0] in config.word_tree:
            label, length = _longest(config, text, tokens, place)
            labels.add(label)
        place += length
    return labels - {0}


def _longest(
    config: ModelConfig, text: str, tokens: list[tuple[str, int, int]], place: int
) -> tuple[int, int]:
    """Return the label of the longest word, such as "sports car" and not "car", that is at a token,
    and how many tokens it has; 0 and 1 where there is none."""
    label = 0
    length = 1
    start = tokens[place][1]
    if start and _in_word(text[start - 1]):  # the + of c+
        return label, length
    tree = config.word_tree
    for last in range(place, len(tokens)):
        token, _, end = tokens[last]
        if token not in tree:
            break
        tree = tree[token]
        if "" in tree and not _in_word(text[end : end + 1]):
            word = text[start:end]
            label_of_word = config.labels.get(word) or config.labels.get(word.lower())
            if label_of_word:
                label = label_of_word
                length = last - place + 1
    return label, length


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _refused(message: str) -> InvalidInput:
    return InvalidInput(message, "prompt", "prompt_not_supported")


def plain(text: str, param: str = "class") -> str:
    """Return a text as words are compared; InvalidInput that names `param` for too many combining
    marks in a row."""
    try:
        return configs.plain(text)
    except ValueError as error:
        raise InvalidInput(f"{param} has {error}.", param) from None


def _names(config: ModelConfig) -> str:
    """Return the classes' names for a message, the first hundred of them."""
    names = config.class_names
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
