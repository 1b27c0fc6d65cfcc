"""From checked fields to a job: which seed, which bytes are known. HTTP and websocket share it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isfinite

from structlog.contextvars import bind_contextvars

from scanline.model.config import ModelConfig
from scanline.model.inputs import checked_seed
from scanline.model.pictures import known_by_alpha, known_by_picture, known_rows, open_picture, pixels
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.api.offload import decoded
from scanline.server.api.schemas import EditRequest, PaintFields
from scanline.server.api.tracing import traced
from scanline.server.api.uploads import uploads
from scanline.server.engine.client.job import Job
from scanline.server.registry import ServedModel


@asynccontextmanager
async def painting(
    model: ServedModel,
    fields: PaintFields,
    images: int,
    client: str,
    *,
    stream: bool = False,
    snapshot: tuple[int, int] | None = None,
) -> AsyncIterator[tuple[GenerateRequest, Job]]:
    """A client's request for `images` images, and the job that paints them until it is done or the context is left.

    Room is taken before any picture is decoded. EngineUnavailableError or QueueFullError where there is none,
    InvalidInput where a picture is wrong.
    """
    bind_contextvars(model=model.id, images=images)
    engine, config = model.engine, model.config
    with engine.reserve(images, client) as reservation:
        known, masks = await decoded(uploads(fields), lambda: _known(fields, config))
        request = GenerateRequest(
            id=next(engine.request_ids),
            images=images,
            seed=checked_seed(fields.seed),
            temperature=fields.temperature,
            known=known,
            masks=masks,
            stream=stream,
            snapshot=snapshot,
            client=client,
        )
        bind_contextvars(seed=request.seed)
        with traced(engine.run(Job(request, config.bytes), reservation)) as job:
            yield request, job


def _known(fields: PaintFields, config: ModelConfig) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The known images of an edit and their masks, N bytes each; InvalidInput where a picture is wrong."""
    if not isinstance(fields, EditRequest):
        return (), ()
    mask = None
    if fields.mask is not None:
        mask = known_by_picture(open_picture(fields.mask, config, "mask"), config, "mask")
    elif fields.keep_rows is not None:
        mask = known_rows(fields.keep_rows, config)
    pictures = [open_picture(data, config, "image") for data in fields.image]
    known = tuple(pixels(picture, config).tobytes() for picture in pictures)
    masks = tuple((known_by_alpha(picture, config) if mask is None else mask).tobytes() for picture in pictures)
    return known, masks


def finite_or_null(bits: float) -> float | None:
    """An image's bits/dim for JSON: null where they are infinite, because the model rules out a known byte."""
    return bits if isfinite(bits) else None
