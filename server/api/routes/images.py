"""POST /v1/images/generations, /v1/images/edits and /v1/images/decodings."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from fastapi import APIRouter, Request, Response
from starlette.types import Send

from scanline.model.images import film as films
from scanline.model.images import pictures
from scanline.model.images.contact_sheet import grid
from scanline.model.images.film import Film
from scanline.model.inputs import InvalidInput
from scanline.model.tasks.paint import PaintTask
from scanline.server.api.cancellation import deadline, until_disconnect
from scanline.server.api.client import client_of
from scanline.server.api.errors import MAX_QUOTED, ApiError
from scanline.server.api.openapi import code_body, json_body, painted, upload_body
from scanline.server.api.payload import schemas
from scanline.server.api.payload.accept import accepted
from scanline.server.api.payload.answers import JSON, NPY, WorkingResponse, painted_chunks, send_answer
from scanline.server.api.payload.image_output import MEDIA_TYPES, check_still, image_metadata, output_of, seed_headers
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.api.payload.response_schemas import DecodingsAnswer, ImagesAnswer, Usage
from scanline.server.api.payload.schemas import EditRequest, GenerationRequest, PaintFields
from scanline.server.api.payload.uploads import read_fields, read_json
from scanline.server.api.plans import decode_task, paint_task
from scanline.server.api.routes.image_events import EventStream
from scanline.server.api.run import finished
from scanline.server.models.registry import ModelRegistry, ServedModel

FILMS = tuple(films.MEDIA_TYPES.values())
KINDS = {media_type: kind for kind, media_type in MEDIA_TYPES.items()}
PICTURES = tuple(dict.fromkeys(MEDIA_TYPES.values()))


def router(models: ModelRegistry) -> APIRouter:
    """Return the routes over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    generation, edit = json_body(GenerationRequest, {"n": 4, "seed": 7}), upload_body(EditRequest, {"keep_rows": 14})
    decoding = code_body(schemas.DecodingRequest)

    @routes.post("/generations", response_model=ImagesAnswer, responses=painted(), openapi_extra=generation)
    async def generate_images(request: Request) -> Response:
        """Paint images from nothing."""
        return _respond(models, request, await read_json(request, GenerationRequest), ImagesAnswer)

    @routes.post("/edits", response_model=ImagesAnswer, responses=painted(), openapi_extra=edit)
    async def edit_images(request: Request) -> Response:
        """Complete images: known pixels are returned byte for byte, the others are painted."""
        return _respond(models, request, await read_fields(request, EditRequest, models), ImagesAnswer)

    @routes.post("/decodings", response_model=DecodingsAnswer, responses=painted(), openapi_extra=decoding)
    async def decode_images(request: Request) -> Response:
        """Return the images of codes, byte for byte."""
        fields = await read_fields(request, schemas.DecodingRequest, models)
        async with deadline(models.request_timeout), until_disconnect(request):
            decoding = await decode_task(models, fields)
        return _respond(models, request, fields, DecodingsAnswer, decoding)

    return routes


def _respond(
    models: ModelRegistry,
    request: Request,
    fields: schemas.OutputFields,
    answer: type[DecodingsAnswer],
    decoding: tuple[ServedModel, PaintTask] | None = None,
) -> Response:
    """Return the response with the images that are painted or decoded; answer: that of JSON."""
    model, task = decoding or paint_task(models, cast("PaintFields", fields))
    config = model.config
    shown = task.shown
    resize = models.resizes(fields.size_policy)
    output = replace(output_of(fields, config, len(shown), resize), columns=task.columns)
    # JSON has a file of each image; other answers are one file, whose images stand in a grid.
    media_type = _media_type(request, fields)
    is_json = media_type == JSON
    rows, columns = (1, 1) if is_json else grid(len(shown), task.columns)
    image_width, image_height = output.size or (config.width, config.height)
    width, height = columns * image_width, rows * image_height
    film = _film(fields, media_type)
    if media_type != NPY:
        kind = fields.output_format if is_json else KINDS[media_type]
        if film:
            film.check_size(width, height, config.channels, kind, len(shown) if is_json else 1)
            output = replace(output, film=film)
        else:
            check_still(width, height, config.channels, kind, rows * columns)
    pictures = UploadedPictures(model, fields, resize) if isinstance(fields, schemas.PictureFields) else None
    if fields.stream:
        if film and is_json:
            fields.refuse_film("events have pictures, leave it out")
        if not is_json:
            reason = f"stream is answered with events, not with {media_type}; leave out stream or Accept: {media_type}."
            raise InvalidInput(reason, "stream")
        return EventStream(request, models, model, task, fields, output, pictures)

    async def work(send: Send) -> bytes | None:
        async with finished(request, models, model, task, client_of(request.scope).id, pictures):
            done = replace(output, uploaded=pictures.resized if pictures else ())
            images = task.images.reshape(-1, *config.image_shape)[list(shown)]
            whole = answer(
                created=int(time.time()),
                model=model.id,
                data=[],
                **done.fields,
                usage=Usage.of(task.request.known_bytes, images.size),
                **task.drawn,
                **task.used,
            )
            facts = ({"index": number, **image_metadata(task, row)} for row, number in shown.items())
            known = task.request.known_pixels(config) if output.film else None
            chunks = painted_chunks(whole, images, facts, media_type, output, known)
            headers = {"content-type": media_type, **done.headers, **seed_headers(task)}
            return await send_answer(request, send, chunks, headers, models.request_timeout)

    return WorkingResponse(work)


def _film(fields: schemas.OutputFields, media_type: str) -> Film | None:
    """Return the film to answer with, None for other answers; InvalidInput where only the fields ask for one."""
    kind = MEDIA_TYPES[fields.output_format] if media_type == JSON else media_type
    if kind in FILMS:
        is_always = kind not in pictures.MEDIA_TYPES.values()
        return fields.film or (Film() if is_always else None)
    fields.refuse_film(f"send Accept: {_any_of(FILMS)}, or output_format {_any_of(tuple(films.MEDIA_TYPES))}")
    return None


def _media_type(request: Request, fields: schemas.OutputFields) -> str:
    """Return the media type to answer with: the first of Accept that we have, or JSON if it names no picture."""
    kinds = accepted(request)
    for kind in kinds:
        if kind in (NPY, *PICTURES):
            return kind
        if kind == "image/*":
            named = MEDIA_TYPES[fields.output_format]
            return named if fields.film is None or named in FILMS else films.MEDIA_TYPES["apng"]
        if kind in ("application/json", "application/*", "*/*"):
            return JSON
    for kind in kinds:
        if kind.startswith("image/"):
            message = f"Accept: {kind[:MAX_QUOTED]} is not supported; use {_any_of(PICTURES)}."
            raise ApiError(406, message, code="not_acceptable")
    return JSON


def _any_of(kinds: Sequence[str]) -> str:
    return f"{', '.join(kinds[:-1])} or {kinds[-1]}"
