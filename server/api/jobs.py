"""From checked fields to a job: which seed, which bytes are known. HTTP and websocket share it."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import isfinite

from structlog.contextvars import bind_contextvars

from scanline.model.config import ModelConfig
from scanline.model.pictures import known_by_alpha, known_by_picture, known_rows, open_picture, pixels
from scanline.server.api.offload import decoded
from scanline.server.api.schemas import EditRequest, PaintFields
from scanline.server.api.tracing import traced
from scanline.server.api.uploads import uploads
from scanline.server.engine.client.job import Job
from scanline.server.served import ServedModel

SEED_BITS = 53  # of a seed that we draw: JavaScript reads it back without loss


@dataclass(frozen=True)
class Work:
    """What the engine is asked to paint."""

    images: int
    seed: int
    temperature: float
    known: tuple[bytes, ...] = ()
    masks: tuple[bytes, ...] = ()

    @property
    def known_bytes(self) -> int:
        """Bytes that need no painting, all images together."""
        copies = self.images // len(self.masks) if self.masks else 0
        return copies * sum(mask.count(1) for mask in self.masks)

    def known_bytes_of(self, index: int) -> int:
        """Bytes of one image that need no painting."""
        return self.masks[index * len(self.masks) // self.images].count(1) if self.masks else 0


def work_of(fields: PaintFields, images: int, config: ModelConfig) -> Work:
    """What to paint; decodes the pictures of an edit, InvalidInput where one is wrong."""
    seed = secrets.randbits(SEED_BITS) if fields.seed is None else fields.seed
    if not isinstance(fields, EditRequest):
        return Work(images, seed, fields.temperature)
    known, masks = [], []
    mask = None
    if fields.mask is not None:
        mask = known_by_picture(open_picture(fields.mask, config, "mask"), config, "mask")
    elif fields.keep_rows is not None:
        mask = known_rows(fields.keep_rows, config)
    for data in fields.image:
        picture = open_picture(data, config, "image")
        known.append(pixels(picture, config).tobytes())
        masks.append((known_by_alpha(picture, config) if mask is None else mask).tobytes())
    return Work(images, seed, fields.temperature, tuple(known), tuple(masks))


@asynccontextmanager
async def painting(
    model: ServedModel,
    fields: PaintFields,
    images: int,
    *,
    stream: bool = False,
    trace: tuple[int, int] | None = None,
) -> AsyncIterator[tuple[Work, Job]]:
    """What is to be painted, and the job that paints it until it is done or the context left.

    Room is taken before any picture is decoded. EngineUnavailableError or QueueFullError where there is none,
    InvalidInput where a picture is wrong.
    """
    bind_contextvars(model=model.id, images=images)
    with model.engine.reserve(images):
        work = await decoded(uploads(fields), lambda: work_of(fields, images, model.config))
        bind_contextvars(seed=work.seed)
        asked = (images, work.seed, work.temperature, work.known, work.masks)
        with traced(model.engine.paint(*asked, stream=stream, trace=trace)) as job:
            yield work, job


def told_bits(bits: float) -> float | None:
    """An image's bits/dim in JSON: null where they are infinite, by known bytes that the model rules out."""
    return bits if isfinite(bits) else None
