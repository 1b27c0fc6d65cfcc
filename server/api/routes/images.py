"""POST /v1/images/generations, /v1/images/edits and /v1/images/decodings."""

import time

import numpy as np
from fastapi import APIRouter, Request, Response

from scanline.model.base.inputs import InvalidInput
from scanline.model.tasks.paint import PaintTask
from scanline.server.api.base.cancellation import deadline, until_disconnect
from scanline.server.api.jobs import Answer, TaskResponse, decode_task, paint_task
from scanline.server.api.openapi import code_body, json_body, painted, upload_body
from scanline.server.api.payload import offload, schemas
from scanline.server.api.payload.answers import painted_chunks
from scanline.server.api.payload.image_output import image_metadata, output_of, seed_headers
from scanline.server.api.payload.json_object import read_json
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.api.payload.response_schemas import DecodingsAnswer, ImagesAnswer, Usage
from scanline.server.api.payload.schemas import EditRequest, GenerationRequest, OutputFields
from scanline.server.api.payload.uploads import read_fields
from scanline.server.api.routes.image_events import EventStream
from scanline.server.models.registry import ModelRegistry, ServedModel


def router(models: ModelRegistry) -> APIRouter:
    """Return the routes over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    generation = json_body(GenerationRequest, {"n": 4, "seed": 7})
    edit = upload_body(EditRequest, {"keep_rows": 14})
    decoding = code_body(schemas.DecodingRequest)

    @routes.post(
        "/generations", response_model=ImagesAnswer, responses=painted(), openapi_extra=generation
    )
    async def generate_images(request: Request) -> Response:
        """Paint images from nothing."""
        fields = await read_json(request, GenerationRequest)
        return _respond(models, request, fields, ImagesAnswer, paint_task(models, fields))

    @routes.post("/edits", response_model=ImagesAnswer, responses=painted(), openapi_extra=edit)
    async def edit_images(request: Request) -> Response:
        """Complete images: known pixels are returned byte for byte, the others are painted."""
        fields = await read_fields(request, EditRequest, models)
        return _respond(models, request, fields, ImagesAnswer, paint_task(models, fields))

    @routes.post(
        "/decodings", response_model=DecodingsAnswer, responses=painted(), openapi_extra=decoding
    )
    async def decode_images(request: Request) -> Response:
        """Return the images of codes, byte for byte."""
        fields = await read_fields(request, schemas.DecodingRequest, models)
        async with deadline(models.request_timeout), until_disconnect(request):
            planned = await decode_task(models, fields)
        return _respond(models, request, fields, DecodingsAnswer, planned)

    return routes


async def _shown_images(task: PaintTask) -> np.ndarray:
    """Return the images [n, N] of a task's answer, without a copy
    where these are all of its images.
    """
    rows = list(task.shown)
    if rows == list(range(task.count)):
        return task.images
    return await offload.run_long(lambda: task.images.take(rows, axis=0))


def _respond(
    models: ModelRegistry,
    request: Request,
    fields: OutputFields,
    answer: type[DecodingsAnswer],
    planned: tuple[ServedModel, PaintTask],
) -> Response:
    """Return the response with the images that a task paints or decodes; answer: that of JSON."""
    model, task = planned
    resize = models.resizes(fields.size_policy)
    output = output_of(request, fields, task, resize)
    pictures = (
        UploadedPictures(model, fields, resize)
        if isinstance(fields, schemas.PictureFields)
        else None
    )
    if fields.stream:
        if output.film and output.is_json:
            fields.refuse_film("events have pictures, leave it out")
        if not output.is_json:
            kind = output.media_type
            reason = f"stream is answered with events, not with {kind}; leave out stream or Accept: {kind}."
            raise InvalidInput(reason, "stream")
        return EventStream(request, models, model, task, fields, output, pictures)

    async def whole_answer() -> Answer:
        done = output.of(task, model, pictures.resized if pictures else ())
        shown = task.shown
        config = model.config
        images = (await _shown_images(task)).reshape(-1, *config.image_shape)
        candidates = sum(map(task.request.candidates_of, shown.values()))
        whole = answer(
            created=int(time.time()),
            model=model.id,
            data=[],
            **done.fields,
            usage=Usage.of(task.request.known_bytes, config.bytes * candidates),
            **task.drawn,
            **task.used,
        )
        metadata = ({"index": number, **image_metadata(task, row)} for row, number in shown.items())
        known = task.request.known_pixels(config) if output.film else None
        chunks = painted_chunks(whole, images, metadata, done, known)
        headers = {"content-type": output.media_type, **done.headers, **seed_headers(task)}
        return chunks, headers

    return TaskResponse(request, models, model, task, pictures, whole_answer)
