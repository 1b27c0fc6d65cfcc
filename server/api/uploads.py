"""Bodies of requests. Those with pictures come in either dress: multipart as the official client sends it, or JSON
with base64.

Both become the same fields, checked by the same schema. In multipart numbers and booleans are text, and an
image list is repeated `image[]` parts; in JSON `image` is one text or a list of them.
"""

import json
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from scanline.model.inputs import InvalidInput
from scanline.model.pictures import from_base64
from scanline.server.api.errors import PLAIN, ApiError, unknown_field
from scanline.server.api.schemas import EditRequest

Fields = TypeVar("Fields", bound=BaseModel)
FILES = ("image", "mask", "markup")  # the last to be refused by its own sentence
MOST_TEXTS = 64  # of a form; requests have fewer fields


async def read_json(request: Request, schema: type[Fields]) -> Fields:
    """The fields of a request without pictures as `schema`; ApiError where the body or a field is wrong."""
    if _kind(request) != "application/json":
        raise ApiError(415, "Send application/json.", code="unsupported_media_type")
    return schema.model_validate(await _object(request))


async def read_fields(request: Request, schema: type[Fields], most: int) -> Fields:
    """The fields of a request with pictures, `most` of them, as `schema`; ApiError where body or field is wrong."""
    kind = _kind(request)
    if kind == "application/json":
        return from_json(await _object(request), schema, most)
    if kind == "multipart/form-data":
        try:
            form = await request.form(max_files=most + 1, max_fields=MOST_TEXTS)  # one file may be a mask
        except HTTPException as error:
            if error.detail.startswith("Too many files"):
                raise _too_many(most) from None
            if error.detail.startswith("Too many fields"):
                raise ApiError(400, f"The form has more than {MOST_TEXTS} texts.", code="invalid_multipart") from None
            raise ApiError(400, f"The body is not valid multipart: {error.detail}", code="invalid_multipart") from None
        try:
            return schema.model_validate(await _form_fields(form.multi_items()), strict=False)
        finally:
            await form.close()
    raise ApiError(415, "Send multipart/form-data or application/json.", code="unsupported_media_type")


def _kind(request: Request) -> str:
    """The media type of the body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _object(request: Request) -> dict[str, Any]:
    """The body, a JSON object."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise ApiError(400, "The body is not valid JSON.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_body")
    return body


def from_json(body: dict[str, Any], schema: type[Fields], most: int) -> Fields:
    """A JSON object with base64 pictures, at most so many, as `schema`."""
    fields = dict(body)
    if "image" in fields:
        texts = fields["image"] if isinstance(fields["image"], list) else [fields["image"]]
        if len(texts) > most:
            raise _too_many(most)
        fields["image"] = [_decode(text, "image") for text in texts]
    if fields.get("mask") is not None:
        fields["mask"] = _decode(fields["mask"], "mask")
    return schema.model_validate(fields)


def uploads(fields: BaseModel) -> list[bytes]:
    """The pictures of a request, as they came."""
    if not isinstance(fields, EditRequest):
        return []
    return fields.image if fields.mask is None else [*fields.image, fields.mask]


def _too_many(most: int) -> InvalidInput:
    return InvalidInput(f"image: there are more pictures than the {most} of one request.", "image")


def _decode(text: Any, param: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidInput(f"{param} must be base64 text.", param)
    return from_base64(text, param)


async def _form_fields(parts: list[tuple[str, UploadFile | str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in parts:
        key = name.removesuffix("[]")
        if not PLAIN.fullmatch(key):
            raise unknown_field(key)
        if isinstance(value, UploadFile) != (key in FILES):
            wanted = "a file" if key in FILES else "text"
            raise InvalidInput(f"{key} must be {wanted}.", key)
        if isinstance(value, UploadFile):
            data = await value.read()
            if key == "image":
                fields.setdefault(key, []).append(data)
                continue
        if key in fields:
            raise InvalidInput(f"{key} is there twice.", key)
        fields[key] = data if isinstance(value, UploadFile) else value
    return fields
