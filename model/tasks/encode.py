"""Lossless codes of images: of each by itself, or one file of all, each under its class where that
is shorter."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np

from scanline.kernels.codec.coder import PRECISION
from scanline.model.base.class_names import label_of_class
from scanline.model.formats.code_file import CodeFile, Codes, checked_images_a_code, code_file
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.sampling.base.messages import Event, Scored, ScoreRequest
from scanline.model.sampling.encoding import Encoder
from scanline.model.tasks.task import ReadTask


@dataclass(frozen=True)
class EncodeValues:
    """What a user says of images to encode, besides the images."""

    class_names: Sequence[str | None]  # of each image
    coding: str  # the digest of the model and its arithmetic
    precision: str
    images_a_code: int | None = None  # of a file; None: as many as make about 8 KB
    is_file: bool = True  # one of all images, else a code of each by itself


@dataclass(frozen=True)
class ImageCode:
    """The code of one image."""

    file: bytes
    bits: float  # of its pixels, and of its label where it has one
    label: int  # under which it is coded


@dataclass(frozen=True)
class Encoded:
    """The codes of n images: a file of all, or one of each."""

    file: CodeFile | None
    codes: list[ImageCode]


class EncodeTask(ReadTask):
    """Images that are read without a class and, where they have one, under it; encoded in order as
    they come."""

    def __init__(self, model: ModelInfo, values: EncodeValues, labels: Sequence[int]) -> None:
        self.config = model.config
        self.values = values
        self.labels = labels
        # of each image, by label
        self.readings = [(0, label) if label else (0,) for label in labels]
        self.count = sum(map(len, self.readings))
        self.has_labels = any(labels)
        self.encoder = self._encoder(values.images_a_code)  # of the file
        self.intervals: dict[int, bytes] = {}  # by reading, as in Scored, until they are encoded
        self.encoded = 0  # images
        self.read = 0  # their readings
        self.codes: list[ImageCode] = []

    def fill(self, images: Sequence[Cleaned]) -> None:
        """See ReadTask.fill."""
        self.images = np.concatenate([part.images for part in images])
        copies: list[bytes] = []
        labels: list[int] = []
        for image, readings in zip(self.images, self.readings, strict=True):
            copies += [image.tobytes()] * len(readings)
            labels += readings
        self.request = ScoreRequest(0, tuple(copies), tuple(labels), coded=True)

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        if isinstance(event, Scored) and event.index >= self.read:
            self.intervals[event.index] = event.intervals

    def work(self) -> Iterator[None]:
        """Encode the images whose readings are there, piece by piece: half a microsecond for each
        byte."""
        while self.has_work:
            readings = self._next_readings
            yield from self._encode([self.intervals.pop(reading) for reading in readings])
            self.encoded += 1
            self.read = readings.stop
            yield

    @property
    def has_work(self) -> bool:
        """See Task.has_work."""
        if self.encoded == len(self.labels):
            return False
        return all(reading in self.intervals for reading in self._next_readings)

    @property
    def _next_readings(self) -> range:
        """The readings of the image that is encoded next."""
        return range(self.read, self.read + len(self.readings[self.encoded]))

    @property
    def work_bytes(self) -> int | None:
        """See Task.work_bytes."""
        return self.config.bytes if len(self.labels) == 1 and not self.values.is_file else None

    @property
    def held_bytes(self) -> int:
        """The bytes of the intervals that are not encoded yet."""
        return len(self.intervals) * self.config.bytes * 8

    def result(self) -> Encoded:
        """Return the codes of all images."""
        if not self.values.is_file:
            return Encoded(None, self.codes)
        return Encoded(self._file(self.images, self.encoder.finish()), [])

    def _encoder(self, length: int | None) -> Encoder:
        return Encoder(1 + len(self.config.classes) if self.has_labels else 1, length)

    def _encode(self, intervals: list[bytes]) -> Iterator[None]:
        image = self.encoded
        label = self.labels[image]
        encoder = self.encoder if self.values.is_file else self._encoder(1)
        encoder.add(intervals[0], label, *intervals[1:])
        yield from encoder.work(is_last=image + 1 == len(self.labels))
        if self.values.is_file:
            return
        codes = encoder.finish()
        file = self._file(self.images[image : image + 1], codes).to_bytes()
        # The reading that is coded is the last one where its label is coded with it.
        coded = intervals[0]
        bits_of_label = 0.0
        if codes.labelled:
            coded = intervals[-1]
            bits_of_label = log2(encoder.labels)
        widths = np.frombuffer(coded, np.uint32)[1::2]
        bits = PRECISION * len(widths) - float(np.log2(widths).sum()) + bits_of_label
        self.codes.append(ImageCode(file, bits, label if codes.labelled else 0))

    def _file(self, images: np.ndarray, codes: Codes) -> CodeFile:
        values = self.values
        shape = (self.config.height, self.config.width, self.config.channels)
        labels = self.encoder.labels
        return code_file(images, codes, shape, values.coding, values.precision, labels)


def plan(model: ModelInfo, values: EncodeValues) -> EncodeTask:
    """Return the task that encodes images; InvalidInput where a class is not known or a code has
    too many images."""
    values = replace(values, images_a_code=checked_images_a_code(values.images_a_code))
    # Each class is looked up once, however many images have it.
    names = dict.fromkeys(values.class_names)
    label_of = {name: label_of_class(model.config, name) for name in names}
    return EncodeTask(model, values, [label_of[name] for name in values.class_names])
