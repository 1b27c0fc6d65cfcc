"""Images to codes: several images to a code, each under its class where
that makes the codes of all shorter.

A labelled code has the label of each image before its bytes; an image whose class
does not help has the label for none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scanline.kernels.codec import coder
from scanline.kernels.codec.coder import PRECISION
from scanline.model.formats.code_file import Codes, images_a_code, label_width

MEASURED = 64  # images, whose bits say how many there are to a code
# bytes of an image that are encoded at once: five milliseconds, in
# which no other thread of Python runs
PIECE = 8192


@dataclass(frozen=True)
class _Image:
    """An image's intervals without a class and under its label, [N, 2]
    uint32; where it has none, the same.
    """

    intervals: np.ndarray
    label: int
    under_label: np.ndarray


class Encoder:
    """Takes images in order, and makes codes of them once enough are there."""

    def __init__(self, labels: int = 1, length: int | None = None) -> None:
        """labels: that an image may have, with that for none; 1: no image has a class. length: the
        images of a code, by default as many as make it about 8 KB."""
        self.labels = labels
        self.length = length
        self.waiting: list[_Image] = []
        self.begun = 0  # images in the codes that are not finished
        # of plain codes, and of labelled
        self.encoders = [coder.Encoder() for _ in range(1 if labels == 1 else 2)]
        self.codes: list[list[bytes]] = [[] for _ in self.encoders]

    def add(self, intervals: bytes, label: int = 0, under_label: bytes | None = None) -> None:
        """Take an image, given by its Scored.intervals without a class and,
        where it has a label, under that.
        """
        if under_label is None:
            under_label = intervals
        image = _Image(_pairs(intervals), label, _pairs(under_label))
        self.waiting.append(image)

    def work(self, is_last: bool = False) -> Iterator[None]:
        """Encode the images that are there, and yield after each
        piece. is_last: no other image comes.
        """
        if self.length is None and (is_last or len(self.waiting) >= MEASURED):
            bits = [_bits(image.intervals) for image in self.waiting[:MEASURED]]
            self.length = images_a_code(sum(bits) / len(bits))
        while self.length is not None and self.waiting:
            yield from self._encode(self.waiting.pop(0))
            self.begun += 1
            if self.begun == self.length:
                self._end_codes()

    def finish(self) -> Codes:
        """Return the codes of all images."""
        for _ in self.work(is_last=True):
            pass
        if self.begun:
            self._end_codes()
        assert self.length is not None
        plain = self.codes[0]
        labelled = self.codes[-1]
        if sum(map(len, labelled)) < sum(map(len, plain)):
            return Codes(tuple(labelled), self.length, (True,) * len(labelled))
        return Codes(tuple(plain), self.length)

    def _encode(self, image: _Image) -> Iterator[None]:
        """Add an image to the code, and under its label, where it has
        fewer bits so, to the labelled one.
        """
        chosen = [image.intervals]
        if self.labels > 1:
            label = 0
            under_label = image.intervals
            if _bits(image.under_label) < _bits(image.intervals):
                label = image.label
                under_label = image.under_label
            width = label_width(self.labels)
            self.encoders[1].add([(width * label, width)])
            chosen.append(under_label)
        for encoder, intervals in zip(self.encoders, chosen, strict=True):
            for start in range(0, len(intervals), PIECE):
                piece = intervals[start : start + PIECE]
                encoder.add(piece.tolist())
                yield

    def _end_codes(self) -> None:
        for place, encoder in enumerate(self.encoders):
            self.codes[place].append(encoder.finish())
            self.encoders[place] = coder.Encoder()
        self.begun = 0


def _pairs(intervals: bytes) -> np.ndarray:
    return np.frombuffer(intervals, np.uint32).reshape(-1, 2)


def _bits(intervals: np.ndarray) -> float:
    bits = PRECISION - np.log2(intervals[:, 1])
    return float(bits.sum())
