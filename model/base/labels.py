"""The labels of a request's images: one of all, one of each, or one that is drawn
for each. A label is 0 for no class, k + 1 for class k.
"""

from dataclasses import dataclass
from typing import TypeAlias

from scanline.model.base.class_names import drawn_label


@dataclass(frozen=True)
class DrawnLabel:
    """Each image has one of so many classes, every one equally likely."""

    classes: int


# the label of all images, of each of them in order, or one that is drawn for each
Labels: TypeAlias = int | tuple[int, ...] | DrawnLabel


def label_of(labels: Labels, seed: int, index: int) -> int:
    """Return the label of image `index`."""
    if isinstance(labels, tuple):
        return labels[index]
    if isinstance(labels, DrawnLabel):
        return drawn_label(labels.classes, seed, index)
    return labels


def is_of_classes(labels: Labels) -> bool:
    """Return whether any image has a class."""
    return any(labels) if isinstance(labels, tuple) else labels != 0


def has_class(labels: Labels, index: int) -> bool:
    """Return whether image `index` has a class; nothing is drawn for the answer."""
    label = labels[index] if isinstance(labels, tuple) else labels
    return label != 0
