"""Images that are painted from codes: those of a code one after the other, each
from where the one before it has ended.

An image that is not wanted is painted too where a later one of its code is.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scanline.kernels.codec.coder import Decoder
from scanline.kernels.codec.reference import histogram_starts
from scanline.model.base.config import ModelConfig
from scanline.model.formats.code_file import Codes, label_width
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind


class Coded(Kind):
    """The kind of all images of a request with codes, of which
    it knows how far they are decoded.
    """

    may_share_beginnings = False  # no random number decides their bytes
    is_followed = True

    def __init__(self, codes: Codes, wanted: Sequence[int], config: ModelConfig) -> None:
        self.codes = codes
        self.wanted = frozenset(wanted)
        self.config = config
        self.last = codes.last_of(wanted)  # the last image that is wanted, by code
        # its next image, by code
        self.before = {number: Decoder(codes.codes[number]) for number in self.last}
        # where the bytes begin of the image that is painted now, by code
        self.begun: dict[int, Decoder] = {}

    @property
    def first(self) -> list[int]:
        """The images that can be painted at first."""
        return [number * self.codes.length for number in self.last]

    def is_wanted(self, index: int) -> bool:
        return index in self.wanted

    def specs(self, spec: ImageSpec) -> tuple[ImageSpec, ...]:
        """Return an image with its label, its first byte where no network
        predicts it, and the code of all others.
        """
        number = spec.index // self.codes.length
        code = replace(self.before[number])
        label = 0
        known = mask = None
        if self.codes.is_labelled(number):
            labels = 1 + len(self.config.classes)
            width = label_width(labels)
            label = min(code.target() // width, labels - 1)
            code.take(label * width, width)
        histogram = self.config.first_byte_histogram
        if histogram is not None:
            starts = histogram_starts(histogram)
            value = bisect_right(starts, code.target()) - 1
            start = starts[value]
            code.take(start, starts[value + 1] - start)
            known = np.full(self.config.bytes, value, np.uint8)
            mask = np.arange(self.config.bytes) == 0
        self.begun[number] = code
        return (replace(spec, label=label, known=known, mask=mask, code=code),)

    def following(self, index: int, read: np.ndarray) -> int | None:
        """See Kind.following. The image has read read[0] bytes of its code, up to
        the value and range of read[1:].
        """
        number = index // self.codes.length
        at, value, range_ = read.tolist()
        begun = self.begun[number]
        self.before[number] = Decoder(begun.code, begun.at + at, value, range_)
        if index < self.last[number]:
            return index + 1
        return None
