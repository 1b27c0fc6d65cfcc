"""POST /v1/images/generations, /edits, /likelihoods."""

import time
from collections.abc import Sequence

import numpy as np
from fastapi import APIRouter, Request, Response
from structlog.contextvars import bind_contextvars

from scanline.model import pictures
from scanline.model.config import ModelConfig
from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import GenerateRequest, ScoreRequest
from scanline.server.api.cancellation import cancel_on_disconnect, deadline
from scanline.server.api.client import client_of
from scanline.server.api.errors import ApiError
from scanline.server.api.jobs import painting
from scanline.server.api.offload import decoded, run_in_thread_if_large
from scanline.server.api.openapi import WORK_ERRORS, errors, json_body, painted, upload_body
from scanline.server.api.routes.image_events import EventStream
from scanline.server.api.schemas import (
    EditRequest,
    GenerationRequest,
    ImageData,
    ImagesAnswer,
    Likelihood,
    LikelihoodRequest,
    LikelihoodsAnswer,
    PaintFields,
    Usage,
)
from scanline.server.api.tracing import traced
from scanline.server.api.uploads import read_fields, read_json
from scanline.server.engine.client.job import Job
from scanline.server.registry import ModelRegistry, ServedModel

JSON = "application/json"
NPY = "application/x-npy"


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
        return await _paint(models, request, await read_fields(request, EditRequest, models.max_images))

    @routes.post("/likelihoods", response_model=LikelihoodsAnswer, responses=scored, openapi_extra=likelihood)
    async def likelihoods(request: Request) -> Response:
        """Return how many bits the model needs for given images."""
        return await _score(models, request, await read_fields(request, LikelihoodRequest, models.max_images))

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
    async with (
        painting(model, fields, images, client_of(request.scope).id) as (wanted, job),
        deadline(models.request_timeout),
    ):
        await cancel_on_disconnect(request, job.wait())
    return await run_in_thread_if_large(
        job.images.size, lambda: _painted(model, wanted, job, media_type, fields.output_format)
    )


async def _score(models: ModelRegistry, request: Request, fields: LikelihoodRequest) -> Response:
    model = models.usable(fields.model)
    models.check_count(len(fields.image), "image")
    config = model.config
    bind_contextvars(model=model.id, images=len(fields.image))
    client = client_of(request.scope).id
    with model.engine.reserve(len(fields.image), client) as reservation:
        read = await decoded(fields.image, lambda: _pixels(fields, config))
        score = ScoreRequest(next(model.engine.request_ids), read, client=client)
        with traced(model.engine.run(Job(score, config.bytes), reservation)) as job:
            async with deadline(models.request_timeout):
                await cancel_on_disconnect(request, job.wait())
    return await run_in_thread_if_large(len(read) * config.bytes, lambda: _scored(model, job, fields.per_pixel))


def _pixels(fields: LikelihoodRequest, config: ModelConfig) -> tuple[bytes, ...]:
    return tuple(
        pictures.pixels(pictures.open_picture(data, config, "image"), config).tobytes() for data in fields.image
    )


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
            message = f"Accept: {kind} is not supported; use image/png or image/webp."
            raise ApiError(400, message, code="invalid_value")
    return JSON


def _painted(model: ServedModel, wanted: GenerateRequest, job: Job, media_type: str, output_format: str) -> Response:
    images = job.images.reshape(-1, *model.config.image_shape)
    headers = {"x-scanline-seed": str(wanted.seed)}
    if media_type == NPY:
        return Response(pictures.encode_npy(images), media_type=NPY, headers=headers)
    for name, kind in pictures.MEDIA_TYPES.items():
        if media_type == kind:
            return Response(pictures.encode_sheet(images, name), media_type=kind, headers=headers)
    answer = ImagesAnswer(
        created=int(time.time()),
        model=model.id,
        seed=wanted.seed,
        data=_data(images, job.bits_per_dim.tolist(), output_format),
        size=model.config.size,
        output_format=output_format,
        usage=Usage.of(wanted.known_bytes, images.size),
    )
    return _json(answer.model_dump_json(), headers)


def _scored(model: ServedModel, job: Job, per_pixel: bool) -> Response:
    data = []
    for index, bits in sorted(job.bits.items()):
        each = bits.reshape(model.config.image_shape).tolist() if per_pixel else None
        data.append(Likelihood(index=index, bits_per_dim=bits.mean(), per_pixel=each))
    answer = LikelihoodsAnswer(created=int(time.time()), model=model.id, data=data)
    return _json(answer.model_dump_json(exclude_none=True))


def _json(text: str, headers: dict[str, str] | None = None) -> Response:
    """A response of pydantic's JSON, in which infinite numbers (bits of a byte that the model rules out) are null."""
    return Response(text, media_type=JSON, headers=headers)


def _data(images: np.ndarray, bits_per_dim: Sequence[float], output_format: str) -> list[ImageData]:
    return [
        ImageData(b64_json=pictures.to_base64(image, output_format), index=index, bits_per_dim=bits)
        for index, (image, bits) in enumerate(zip(images, bits_per_dim, strict=True))
    ]
