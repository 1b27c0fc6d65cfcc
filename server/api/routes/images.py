"""POST /v1/images/generations, /edits, /likelihoods."""

import time
from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from starlette.types import Send
from structlog.contextvars import bind_contextvars

from scanline.model import pictures
from scanline.model.config import ModelConfig
from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import ScoreRequest
from scanline.server.api import offload
from scanline.server.api.answers import (
    JSON,
    NPY,
    WorkingResponse,
    check_per_pixel,
    painted_pieces,
    scored_pieces,
    send_answer,
)
from scanline.server.api.cancellation import cancel_on_disconnect, deadline
from scanline.server.api.client import client_of
from scanline.server.api.errors import MAX_QUOTED, ApiError
from scanline.server.api.jobs import painting
from scanline.server.api.openapi import WORK_ERRORS, errors, json_body, painted, upload_body
from scanline.server.api.routes.image_events import EventStream
from scanline.server.api.schemas import (
    EditRequest,
    GenerationRequest,
    ImagesAnswer,
    LikelihoodRequest,
    LikelihoodsAnswer,
    PaintFields,
    Usage,
)
from scanline.server.api.tracing import traced
from scanline.server.api.uploads import read_fields, read_json
from scanline.server.engine.client.job import Job
from scanline.server.registry import ModelRegistry


def router(models: ModelRegistry) -> APIRouter:
    """Return the three routes over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    generation, edit = json_body(GenerationRequest), upload_body(EditRequest)
    likelihood = upload_body(LikelihoodRequest)
    scored = errors(*WORK_ERRORS)

    @routes.post("/generations", response_model=ImagesAnswer, responses=painted(), openapi_extra=generation)
    async def generations(request: Request) -> Response:
        """Paint images from nothing."""
        return await _paint(models, request, await read_json(request, GenerationRequest))

    @routes.post("/edits", response_model=ImagesAnswer, responses=painted(), openapi_extra=edit)
    async def edits(request: Request) -> Response:
        """Complete images: known pixels are returned byte for byte, the others are painted."""
        return await _paint(models, request, await read_fields(request, EditRequest, models))

    @routes.post("/likelihoods", response_model=LikelihoodsAnswer, responses=scored, openapi_extra=likelihood)
    async def likelihoods(request: Request) -> Response:
        """Return how many bits the model needs for given images."""
        return await _score(models, request, await read_fields(request, LikelihoodRequest, models))

    return routes


async def _paint(models: ModelRegistry, request: Request, fields: PaintFields) -> Response:
    model = models.usable(fields.model)
    images = models.count(fields, model)
    media_type = _media_type(request, fields.output_format)
    if fields.stream:
        if media_type != JSON:
            message = (
                f"stream is answered with events, not with {media_type}; leave out stream or Accept: {media_type}."
            )
            raise InvalidInput(message, "stream")
        return EventStream(request, model, images, fields, models.request_timeout)

    async def work(send: Send) -> bytes | None:
        client = client_of(request.scope).id
        async with painting(model, fields, images, client) as (wanted, job):
            async with deadline(models.request_timeout):
                await cancel_on_disconnect(request, job.wait())
            answer = ImagesAnswer(
                created=int(time.time()),
                model=model.id,
                seed=wanted.seed,
                data=[],
                size=model.config.size,
                output_format=fields.output_format,
                usage=Usage.of(wanted.known_bytes, job.images.size),
            )
            shaped = job.images.reshape(-1, *model.config.image_shape)
            pieces = painted_pieces(answer, shaped, job.bits_per_dim.tolist(), media_type)
            headers = {"content-type": media_type, "x-scanline-seed": str(wanted.seed)}
            return await send_answer(request, send, pieces, headers, models.request_timeout)

    return WorkingResponse(work)


async def _score(models: ModelRegistry, request: Request, fields: LikelihoodRequest) -> Response:
    model = models.usable(fields.model)
    models.check_count(len(fields.image), "image")
    config = model.config
    if fields.per_pixel:
        check_per_pixel(len(fields.image), config)

    async def work(send: Send) -> bytes | None:
        bind_contextvars(model=model.id, images=len(fields.image))
        client = client_of(request.scope).id
        with model.engine.reserve(len(fields.image), client) as reservation:
            read = await offload.collect(_pixels(fields, config), sum(map(len, fields.image)))
            score = ScoreRequest(next(model.engine.request_ids), tuple(read), client=client)
            with traced(model.engine.run(Job(score, config.bytes), reservation)) as job:
                async with deadline(models.request_timeout):
                    await cancel_on_disconnect(request, job.wait())
                answer = LikelihoodsAnswer(created=int(time.time()), model=model.id, data=[])
                pieces = scored_pieces(answer, job, config, fields.per_pixel)
                return await send_answer(request, send, pieces, {"content-type": JSON}, models.request_timeout)

    return WorkingResponse(work)


def _pixels(fields: LikelihoodRequest, config: ModelConfig) -> Iterator[bytes]:
    for data in fields.image:
        yield pictures.pixels(pictures.open_picture(data, config, "image"), config).tobytes()


def _media_type(request: Request, output_format: str) -> str:
    """Return the media type to answer with: the first of Accept that we have, or JSON if it names no picture."""
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    for kind in accepted:
        if kind in (NPY, *pictures.MEDIA_TYPES.values()):
            return kind
        if kind == "image/*":
            return pictures.MEDIA_TYPES[output_format]
        if kind in ("application/json", "application/*", "*/*"):
            return JSON
    for kind in accepted:
        if kind.startswith("image/"):
            message = f"Accept: {kind[:MAX_QUOTED]} is not supported; use image/png or image/webp."
            raise ApiError(400, message, code="invalid_value")
    return JSON
