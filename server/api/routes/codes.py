"""POST /v1/images/codes: the number that paints each picture again, and what it costs in bits."""

import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence

from fastapi import APIRouter, Request, Response
from structlog.contextvars import bind_contextvars

from scanline.model.base.config import ModelConfig
from scanline.model.formats.code_file import MEDIA_TYPE, SUFFIX
from scanline.model.tasks import encode
from scanline.model.tasks.encode import EncodeTask, EncodeValues
from scanline.server.api.jobs import Answer, TaskResponse
from scanline.server.api.openapi import coded, upload_body
from scanline.server.api.payload import offload
from scanline.server.api.payload.accept import JSON, accepted
from scanline.server.api.payload.answers import listed_chunks
from scanline.server.api.payload.image_output import upload_fields, upload_headers
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.api.payload.response_schemas import CodesAnswer, ImageCode
from scanline.server.api.payload.schemas import CodesRequest
from scanline.server.api.payload.uploads import read_fields
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.models.registry import ModelRegistry


def router(models: ModelRegistry) -> APIRouter:
    """Return the route over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    body = upload_body(CodesRequest, {})

    @routes.post("/codes", response_model=CodesAnswer, responses=coded(), openapi_extra=body)
    async def encode_images(request: Request) -> Response:
        """Return the code of each picture, from which the same model paints its pixels again."""
        return _encode(models, request, await read_fields(request, CodesRequest, models))

    return routes


def _encode(models: ModelRegistry, request: Request, fields: CodesRequest) -> Response:
    model = models.usable(fields.model)
    if (ready := model.engine.ready) is None:
        raise EngineUnavailableError
    is_file = fields.output_format == "file" or MEDIA_TYPE in accepted(request)
    names = [fields.class_name] * len(fields.image)
    precision = model.engine.options.precision
    task = encode.plan(
        model, EncodeValues(names, ready.coding, precision, fields.images_a_code, is_file)
    )
    models.check_count(task.count, "image", "with the class and without" if task.has_labels else "")
    bind_contextvars(model=model.id, images=len(fields.image))
    pictures = UploadedPictures(model, fields, models.resizes(fields.size_policy))

    async def answer() -> Answer:
        if is_file:
            name = f'attachment; filename="images{SUFFIX}"'
            headers = {
                "content-type": MEDIA_TYPE,
                "content-disposition": name,
                **upload_headers(pictures.resized),
            }
            return _file(task), headers
        codes = task.result().codes
        whole = CodesAnswer(
            created=int(time.time()),
            model=model.id,
            coding=ready.coding,
            precision=precision,
            data=[],
            **upload_fields(pictures.resized),
        )
        size = sum(len(code.file) for code in codes)
        return listed_chunks(whole, _codes(codes, model.config), size), {"content-type": JSON}

    return TaskResponse(request, models, model, task, pictures, answer)


async def _file(task: EncodeTask) -> AsyncIterator[bytes]:
    file = (await offload.run_long(task.result)).file
    assert file is not None
    yield await offload.run_long(file.to_bytes)


def _codes(codes: Sequence[encode.ImageCode], config: ModelConfig) -> Iterator[ImageCode]:
    names = (None, *config.class_names)
    for index, code in enumerate(codes):
        yield ImageCode(
            index=index,
            code=b64encode(code.file).decode(),
            bytes=len(code.file),
            bits=code.bits,
            bits_per_dim=code.bits / config.bytes,
            class_=names[code.label],
        )
