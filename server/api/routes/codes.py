"""POST /v1/images/codes: the number that paints each picture again, and what it costs in bits."""

import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator

from fastapi import APIRouter, Request, Response
from starlette.types import Send

from scanline.model.class_names import label_of_class
from scanline.model.formats.code_file import MEDIA_TYPE, SUFFIX
from scanline.server.api.cancellation import finished
from scanline.server.api.client import client_of
from scanline.server.api.encoding import CodedImages, encoding
from scanline.server.api.openapi import coded, upload_body
from scanline.server.api.payload import offload
from scanline.server.api.payload.accept import accepted
from scanline.server.api.payload.answers import JSON, WorkingResponse, listed_chunks, send_answer
from scanline.server.api.payload.image_output import upload_fields, upload_headers
from scanline.server.api.payload.response_schemas import CodesAnswer, ImageCode
from scanline.server.api.payload.schemas import CodesRequest
from scanline.server.api.payload.uploads import read_fields
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
    label = label_of_class(model.config, fields.class_)
    labels = [0, label] if label else [0]
    is_file = fields.output_format == "file" or MEDIA_TYPE in accepted(request)
    models.check_count(len(fields.image) * len(labels), "image", "with the class and without" if label else "")

    async def work(send: Send) -> bytes | None:
        resize = models.resizes(fields.size_policy)
        encoded = encoding(model, fields, labels, client_of(request.scope).id, resize, is_file)
        async with finished(request, models.request_timeout, encoded, lambda entered: entered[0].finish()) as (
            images,
            uploaded,
        ):
            if is_file:
                name = f'attachment; filename="images{SUFFIX}"'
                headers = {"content-type": MEDIA_TYPE, "content-disposition": name, **upload_headers(uploaded)}
                chunks = _file(images)
            else:
                headers = {"content-type": JSON}
                answer = CodesAnswer(
                    created=int(time.time()),
                    model=model.id,
                    coding=images.coding,
                    precision=images.precision,
                    data=[],
                    **upload_fields(uploaded),
                )
                chunks = listed_chunks(answer, _codes(images), sum(len(each.file) for each in images.alone))
            return await send_answer(request, send, chunks, headers, models.request_timeout)

    return WorkingResponse(work)


async def _file(images: CodedImages) -> AsyncIterator[bytes]:
    yield await offload.run_long(images.file)


def _codes(images: CodedImages) -> Iterator[ImageCode]:
    names = (None, *images.config.class_names)
    for index, each in enumerate(images.alone):
        yield ImageCode(
            index=index,
            code=b64encode(each.file).decode(),
            bytes=len(each.file),
            bits=each.bits,
            bits_per_dim=each.bits / images.config.bytes,
            class_=names[each.label],
        )
