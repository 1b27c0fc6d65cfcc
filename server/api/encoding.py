"""Codes of a request's images, made while its other images are read: of each image alone, or one file of all.

Encoding takes about half a microsecond for each byte: a step is an image, or a code of several.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from math import log2

import numpy as np

from scanline.kernels.codec.coder import PRECISION
from scanline.model.formats.code_file import Codes, code_file
from scanline.model.sampling.encoding import Encoder
from scanline.model.sampling.messages import ScoreRequest
from scanline.server.api.jobs import scoring
from scanline.server.api.payload import offload
from scanline.server.api.payload.schemas import CodesRequest
from scanline.server.engine.job import CodesJob
from scanline.server.models.registry import ServedModel


@dataclass(frozen=True)
class Coded:
    """The code of one image."""

    file: bytes
    bits: float  # of its pixels, and of its label where it has one
    label: int  # under which it is coded


class CodedImages:
    """The images of a job, in which each is there once for every label: 0 for none, and that of the class if one is
    asked for."""

    def __init__(self, model: ServedModel, job: CodesJob, labels: Sequence[int], encoder: Encoder | None) -> None:
        """encoder: of a file of all images; None: each has one of its own."""
        assert isinstance(job.request, ScoreRequest)
        assert model.engine.ready is not None
        self.job, self.labels, self.config, self.encoder = job, labels, model.config, encoder
        self.coding, self.precision = model.engine.ready.coding, model.engine.options.precision
        self.images = job.request.images[:: len(labels)]
        self.encoded = 0  # images, in order
        self.alone: list[Coded] = []

    async def finish(self) -> None:
        """Return when all images are encoded; EngineFailedError where the job failed."""
        while self.encoded < len(self.images):
            self.job.changed.clear()
            if ready := self._ready():
                is_small = self.encoder is None and len(ready) == 1
                await offload.collect(map(self._encode, ready), self.config.bytes if is_small else None)
            elif self.job.has_ended:
                await self.job.wait()
            else:
                await self.job.changed.wait()

    def file(self) -> bytes:
        """Return the file of all images, of which the last are still to be encoded."""
        assert self.encoder is not None
        return self._file(self.images, self.encoder.finish())

    def _ready(self) -> range:
        """Return the next images that have been read under all labels."""
        end, each = self.encoded, len(self.labels)
        while end < len(self.images) and all(end * each + place in self.job.intervals for place in range(each)):
            end += 1
        return range(self.encoded, end)

    def _encode(self, index: int) -> None:
        """Encode an image; its intervals are not kept."""
        first = index * len(self.labels)
        found = [self.job.intervals.pop(first + place) for place in range(len(self.labels))]
        encoder = self.encoder or encoder_of(self.labels, self.config.classes, 1)
        encoder.add(found[0], self.labels[-1], *found[1:])
        if self.encoder is None:
            codes = encoder.finish()
            which = -1 if codes.labelled else 0
            widths = np.frombuffer(found[which], np.uint32)[1::2]
            bits = PRECISION * len(widths) - float(np.log2(widths).sum()) + log2(encoder.labels) * -which
            self.alone.append(Coded(self._file([self.images[index]], codes), bits, self.labels[which]))
        self.encoded += 1

    def _file(self, images: Sequence[bytes], codes: Codes) -> bytes:
        config = self.config
        shape, pixels = (config.height, config.width, config.channels), np.frombuffer(b"".join(images), np.uint8)
        rows, labels = pixels.reshape(len(images), -1), 1 + len(config.classes)
        return code_file(rows, codes, shape, self.coding, self.precision, labels).to_bytes()


@asynccontextmanager
async def encoding(
    model: ServedModel, fields: CodesRequest, labels: Sequence[int], client: str, resize: bool, is_file: bool
) -> AsyncIterator[tuple[CodedImages, tuple[str, ...]]]:
    """Yield the images of a request, to be encoded until the context is left, and the sizes that were resized; errors
    as of `painting`."""
    encoder = encoder_of(labels, model.config.classes, fields.images_a_code) if is_file else None

    def new_job(score: ScoreRequest) -> CodesJob:
        return CodesJob(replace(score, coded=True))

    async with scoring(model, fields, labels, client, new_job, resize) as (job, _, uploaded):
        yield CodedImages(model, job, labels, encoder), uploaded


def encoder_of(labels: Sequence[int], classes: Sequence[object], length: int | None) -> Encoder:
    """Return an encoder of images that are read under these labels, `length` to a code."""
    return Encoder(1 + len(classes) if len(labels) > 1 else 1, length)
