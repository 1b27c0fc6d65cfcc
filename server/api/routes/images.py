"""POST /v1/images/generations and /v1/images/edits."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request, Response
from starlette.types import Send

from scanline.model.images import film as films
from scanline.model.images import pictures
from scanline.model.images.contact_sheet import grid
from scanline.model.images.film import Film
from scanline.model.inputs import InvalidInput
from scanline.server.api.cancellation import finished
from scanline.server.api.client import client_of
from scanline.server.api.errors import MAX_QUOTED, ApiError
from scanline.server.api.jobs import facts, image_count, paint_request, painting
from scanline.server.api.openapi import json_body, painted, upload_body
from scanline.server.api.payload.answers import JSON, NPY, WorkingResponse, painted_chunks, send_answer
from scanline.server.api.payload.image_output import MEDIA_TYPES, image_output
from scanline.server.api.payload.response_schemas import ImagesAnswer, Usage
from scanline.server.api.payload.schemas import EditRequest, GenerationRequest, PaintFields
from scanline.server.api.payload.uploads import read_fields, read_json
from scanline.server.api.routes.image_events import EventStream
from scanline.server.process.registry import ModelRegistry

FILMS = tuple(films.MEDIA_TYPES.values())
PICTURES = tuple(dict.fromkeys(MEDIA_TYPES.values()))
WEIGHT = re.compile(r"[01](\.\d{0,3})?")  # of a media type in Accept


def router(models: ModelRegistry) -> APIRouter:
    """Return both routes over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    generation, edit = json_body(GenerationRequest, {"n": 4, "seed": 7}), upload_body(EditRequest, {"keep_rows": 14})

    @routes.post("/generations", response_model=ImagesAnswer, responses=painted(), openapi_extra=generation)
    async def generate_images(request: Request) -> Response:
        """Paint images from nothing."""
        return await _paint(models, request, await read_json(request, GenerationRequest))

    @routes.post("/edits", response_model=ImagesAnswer, responses=painted(), openapi_extra=edit)
    async def edit_images(request: Request) -> Response:
        """Complete images: known pixels are returned byte for byte, the others are painted."""
        return await _paint(models, request, await read_fields(request, EditRequest, models))

    return routes


async def _paint(models: ModelRegistry, request: Request, fields: PaintFields) -> Response:
    model = models.usable(fields.model)
    n = image_count(fields, models)
    resize = models.resizes(fields.size_policy)
    output = image_output(fields, model.config, n, resize)
    media_type = _media_type(request, fields)
    if film := _film(fields, media_type):
        rows, columns = grid(n)
        width, height = output.size or (model.config.width, model.config.height)
        if media_type == JSON:
            film.check_size(width, height, model.config.channels, n)
        else:
            film.check_size(columns * width, rows * height, model.config.channels)
        output = replace(output, film=film)
    if fields.stream:
        if film and media_type == JSON:
            fields.refuse_film("events have pictures, leave it out")
        if media_type != JSON:
            message = (
                f"stream is answered with events, not with {media_type}; leave out stream or Accept: {media_type}."
            )
            raise InvalidInput(message, "stream")
        return EventStream(request, models, model, n, fields, output)

    async def work(send: Send) -> bytes | None:
        wanted = paint_request(model, fields, n, client_of(request.scope).id)
        painted = painting(models, model, wanted, fields, resize)
        async with finished(request, models.request_timeout, painted, lambda entered: entered[1].wait()) as (
            wanted,
            job,
            uploaded,
        ):
            said = replace(output, uploaded=uploaded)
            answer = ImagesAnswer(
                created=int(time.time()),
                model=model.id,
                seed=wanted.seed,
                temperature=wanted.temperature,
                guidance=wanted.guidance,
                data=[],
                **said.fields,
                usage=Usage.of(wanted.known_bytes, job.images.size),
            )
            shaped = job.images.reshape(-1, *model.config.image_shape)
            each = (facts(job, index, model.config) for index in range(n))
            known = wanted.known_pixels(model.config) if output.film else None
            chunks = painted_chunks(answer, shaped, each, media_type, output, known)
            headers = {"content-type": media_type, "x-scanline-seed": str(wanted.seed), **said.headers}
            return await send_answer(request, send, chunks, headers, models.request_timeout)

    return WorkingResponse(work)


def _film(fields: PaintFields, media_type: str) -> Film | None:
    """Return the film to answer with, None for other answers; InvalidInput where only the fields ask for one."""
    kind = MEDIA_TYPES[fields.output_format] if media_type == JSON else media_type
    if kind in FILMS:
        is_always = kind not in pictures.MEDIA_TYPES.values()
        return fields.film or (Film() if is_always else None)
    fields.refuse_film(f"send Accept: {_any_of(FILMS)}, or output_format {_any_of(tuple(films.MEDIA_TYPES))}")
    return None


def _media_type(request: Request, fields: PaintFields) -> str:
    """Return the media type to answer with: the first of Accept that we have, or JSON if it names no picture."""
    accepted = _accepted(request.headers.get("accept", ""))
    for kind in accepted:
        if kind in (NPY, *PICTURES):
            return kind
        if kind == "image/*":
            named = MEDIA_TYPES[fields.output_format]
            return named if fields.film is None or named in FILMS else films.MEDIA_TYPES["apng"]
        if kind in ("application/json", "application/*", "*/*"):
            return JSON
    for kind in accepted:
        if kind.startswith("image/"):
            message = f"Accept: {kind[:MAX_QUOTED]} is not supported; use {_any_of(PICTURES)}."
            raise ApiError(406, message, code="not_acceptable")
    return JSON


def _any_of(kinds: Sequence[str]) -> str:
    return f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def _accepted(header: str) -> list[str]:
    """Return the media types of an Accept header, those of the greatest weight first (RFC 9110, 12.4.2)."""
    weights: dict[str, float] = {}
    for part in header.lower().split(","):
        kind, *parameters = map(str.strip, part.split(";"))
        given = [value for name, _, value in (each.partition("=") for each in parameters) if name == "q"]
        weights[kind] = float(given[0]) if given and WEIGHT.fullmatch(given[0]) else 1.0
    return sorted((kind for kind in weights if weights[kind]), key=lambda kind: -weights[kind])
