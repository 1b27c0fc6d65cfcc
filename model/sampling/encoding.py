"""Images to codes: several images to a code, each under its class where that makes the codes of all shorter.

A labelled code has the label of each image before its bytes; an image whose class does not help has the label for none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from scanline.kernels.codec.coder import PRECISION, encode
from scanline.model.formats.code_file import Codes, images_a_code, label_width

MEASURED = 64  # images, whose bits say how many there are to a code


@dataclass(frozen=True)
class _Image:
    """An image's intervals without a class and under its label, [N, 2] uint32; where it has none, the same."""

    intervals: np.ndarray
    label: int
    under_label: np.ndarray

    def labelled(self, labels: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals of a label, one of `labels`, and of the bytes under it: those of fewer bits."""
        is_better = _bits(self.under_label) < _bits(self.intervals)
        width = label_width(labels)
        yield width * self.label if is_better else 0, width
        yield from _pairs(self.under_label if is_better else self.intervals)


class Encoder:
    """Takes images in order, and makes codes of them once enough are there."""

    def __init__(self, labels: int = 1, length: int | None = None) -> None:
        """labels: that an image may have, with that for none; 1: no image has a class. length: the images of a code, by
        default as many as make it about 8 KB."""
        self.labels, self.length = labels, length
        self.waiting: list[_Image] = []
        self.plain: list[bytes] = []
        self.labelled: list[bytes] = []

    def add(self, intervals: bytes, label: int = 0, under_label: bytes | None = None) -> None:
        """Encode an image, given by its Scored.intervals without a class and, where it has a label, under that."""
        plain = np.frombuffer(intervals, np.uint32).reshape(-1, 2)
        other = plain if under_label is None else np.frombuffer(under_label, np.uint32).reshape(-1, 2)
        self.waiting.append(_Image(plain, label, other))
        if self.length is None and len(self.waiting) == MEASURED:
            self._choose_length()
        while self.length is not None and len(self.waiting) >= self.length:
            self._encode(self.length)

    def finish(self) -> Codes:
        """Return the codes of all images."""
        if self.length is None:
            self._choose_length()
        assert self.length is not None
        while self.waiting:
            self._encode(self.length)
        is_labelled = bool(self.labelled) and sum(map(len, self.labelled)) < sum(map(len, self.plain))
        return Codes(tuple(self.labelled if is_labelled else self.plain), self.length, is_labelled)

    def _choose_length(self) -> None:
        self.length = images_a_code(sum(_bits(image.intervals) for image in self.waiting) / len(self.waiting))

    def _encode(self, count: int) -> None:
        part, self.waiting = self.waiting[:count], self.waiting[count:]
        self.plain.append(encode(chain.from_iterable(_pairs(image.intervals) for image in part)))
        if self.labels > 1:
            self.labelled.append(encode(chain.from_iterable(image.labelled(self.labels) for image in part)))


def _pairs(intervals: np.ndarray) -> Iterator[tuple[int, int]]:
    return zip(*intervals.T.tolist(), strict=True)


def _bits(intervals: np.ndarray) -> float:
    """Return the bits of intervals [N, 2]."""
    return float((PRECISION - np.log2(intervals[:, 1])).sum())
