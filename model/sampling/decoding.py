"""Images that are painted from codes: those of a code one after the other, each from where the one before it has ended.

An image that is not wanted is painted too where a later one of its code is.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scanline.kernels.codec.coder import Decoder
from scanline.kernels.codec.reference import histogram_starts
from scanline.model.config import ModelConfig
from scanline.model.formats.code_file import Codes, label_width
from scanline.model.sampling.messages import ImageSpec


class Decoding:
    """How far the codes of a request are decoded."""

    def __init__(self, codes: Codes, wanted: Sequence[int], config: ModelConfig) -> None:
        self.codes = codes
        self.wanted = frozenset(wanted)
        self.config = config
        self.last: dict[int, int] = {}  # the last image that is wanted, by code
        for index in sorted(wanted):
            self.last[index // codes.length] = index
        self.before = {number: Decoder(codes.codes[number]) for number in self.last}  # its next image, by code

    @property
    def first(self) -> list[int]:
        """The images that can be painted at first."""
        return [number * self.codes.length for number in self.last]

    def begin(self, spec: ImageSpec) -> ImageSpec:
        """Return an image with its label, its first byte where no network predicts it, and the code of all others."""
        number = spec.index // self.codes.length
        code = replace(self.before[number])
        label = 0
        known = mask = None
        if self.codes.is_labelled(number):
            labels = 1 + len(self.config.classes)
            width = label_width(labels)
            label = min(code.target() // width, labels - 1)
            code.take(label * width, width)
        if (histogram := self.config.first_byte_histogram) is not None:
            starts = histogram_starts(histogram)
            value = bisect_right(starts, code.target()) - 1
            code.take(starts[value], starts[value + 1] - starts[value])
            known = np.full(self.config.bytes, value, np.uint8)
            mask = np.arange(self.config.bytes) == 0
        return replace(spec, label=label, known=known, mask=mask, code=code)

    def end(self, index: int, code: Decoder, read: Sequence[int]) -> int | None:
        """Note that an image has been painted whose bytes began at `code`, of which it has read read[0] bytes up to the
        value and range of read[1:]; return the image that can be painted next."""
        number = index // self.codes.length
        at, value, range_ = read
        self.before[number] = Decoder(code.code, code.at + at, value, range_)
        return index + 1 if index < self.last[number] else None
