"""Codes of a request's images, from the intervals of their bytes: each without a class, and under the class asked for.

Encoding takes about half a microsecond for each byte: every step here is an image or a code.
"""

from collections.abc import Iterator, Sequence
from math import log2

import numpy as np

from scanline.kernels.codec.coder import PRECISION
from scanline.model.formats.code_file import code_file
from scanline.model.sampling.encoding import Encoder
from scanline.model.sampling.messages import Codes, ScoreRequest
from scanline.server.engine.job import CodesJob
from scanline.server.process.registry import ServedModel


class CodedImages:
    """The images of a job, in which each is there once for every label: 0 for none, and that of the class if one is
    asked for."""

    def __init__(self, model: ServedModel, job: CodesJob, labels: Sequence[int]) -> None:
        assert isinstance(job.request, ScoreRequest)
        assert model.engine.ready is not None
        self.job, self.labels, self.config = job, labels, model.config
        self.coding, self.precision = model.engine.ready.coding, model.engine.options.precision
        self.images = job.request.images[:: len(labels)]
        self.all_labels = 1 + len(model.config.classes) if len(labels) > 1 else 1

    def alone(self, index: int) -> tuple[bytes, float, int]:
        """Return the file of one image, the bits of its code, and its label: the class if its code is shorter so."""
        encoder = Encoder(self.all_labels, 1)
        self._add(encoder, index)
        codes = encoder.finish()
        which = -1 if codes.labelled else 0
        widths = np.frombuffer(self._intervals(index)[which], np.uint32)[1::2]
        bits = PRECISION * len(widths) - float(np.log2(widths).sum()) + (log2(self.all_labels) if which else 0)
        return self._file([self.images[index]], codes), bits, self.labels[which]

    def together(self, length: int | None) -> Iterator[bytes]:
        """Yield an empty text for every image, then the file of all: `length` to a code, by default as many as take
        some kilobytes."""
        encoder = Encoder(self.all_labels, length)
        for index in range(len(self.images)):
            self._add(encoder, index)
            yield b""
        yield self._file(self.images, encoder.finish())

    def _add(self, encoder: Encoder, index: int) -> None:
        plain, *under_label = self._intervals(index)
        encoder.add(plain, self.labels[-1], *under_label)

    def _intervals(self, index: int) -> list[bytes]:
        """Return the intervals of an image's bytes under each label, as in Scored."""
        first = index * len(self.labels)
        return [self.job.intervals[first + number] for number in range(len(self.labels))]

    def _file(self, images: Sequence[bytes], codes: Codes) -> bytes:
        config = self.config
        shape, rows = (config.height, config.width, config.channels), np.frombuffer(b"".join(images), np.uint8)
        pixels = rows.reshape(len(images), -1)
        return code_file(pixels, codes, shape, self.coding, self.precision, self.all_labels).to_bytes()
