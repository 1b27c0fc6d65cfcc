"""Request bodies. Those with pictures are multipart, as the official client sends them, or JSON with base64.

Both become the same fields, checked by the same schema. In multipart, numbers and booleans are text and a list of
images is a repeated `image[]` part; in JSON, `image` is one string or a list of strings.
"""

import json
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from scanline.model.inputs import InvalidInput
from scanline.model.pictures import from_base64
from scanline.server.api.errors import FIELD_NAME, ApiError, unknown_field
from scanline.server.api.schemas import EditRequest

Fields = TypeVar("Fields", bound=BaseModel)
FILE_FIELDS = ("image", "mask", "markup")  # markup is refused, by the schema
MAX_FORM_FIELDS = 64  # without the files; no request has as many


async def read_json(request: Request, schema: type[Fields]) -> Fields:
    """Read a request without pictures; raises ApiError or InvalidInput if the body or a field is wrong."""
    if _kind(request) != "application/json":
        raise ApiError(415, "Send application/json.", code="unsupported_media_type")
    return schema.model_validate(await _object(request))


async def read_fields(request: Request, schema: type[Fields], max_images: int) -> Fields:
    """Read a request with at most `max_images` pictures; raises ApiError or InvalidInput if it is wrong."""
    kind = _kind(request)
    if kind == "application/json":
        return from_json(await _object(request), schema, max_images)
    if kind == "multipart/form-data":
        try:
            form = await request.form(max_files=max_images + 1, max_fields=MAX_FORM_FIELDS)  # one file may be a mask
        except HTTPException as error:
            if error.detail.startswith("Too many files"):
                raise _too_many(max_images) from None
            if error.detail.startswith("Too many fields"):
                message = f"The form has more than {MAX_FORM_FIELDS} text fields."
            else:
                message = f"The body is not valid multipart: {error.detail}"
            raise ApiError(400, message, code="invalid_multipart") from None
        try:
            return schema.model_validate(await _form_fields(form.multi_items()), strict=False)
        finally:
            await form.close()
    raise ApiError(415, "Send multipart/form-data or application/json.", code="unsupported_media_type")


def _kind(request: Request) -> str:
    """The media type of the body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _object(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise ApiError(400, "The body is not valid JSON.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_body")
    return body


def from_json(body: dict[str, Any], schema: type[Fields], max_images: int) -> Fields:
    """Return the fields of a JSON object with at most `max_images` base64 pictures as `schema`."""
    fields = dict(body)
    if "image" in fields:
        texts = fields["image"] if isinstance(fields["image"], list) else [fields["image"]]
        if len(texts) > max_images:
            raise _too_many(max_images)
        fields["image"] = [_decode(text, "image") for text in texts]
    if fields.get("mask") is not None:
        fields["mask"] = _decode(fields["mask"], "mask")
    return schema.model_validate(fields)


def uploads(fields: BaseModel) -> list[bytes]:
    """Return the encoded pictures of a request, the mask last."""
    if not isinstance(fields, EditRequest):
        return []
    return fields.image if fields.mask is None else [*fields.image, fields.mask]


def _too_many(max_images: int) -> InvalidInput:
    return InvalidInput(f"image: a request may have at most {max_images} pictures.", "image")


def _decode(text: Any, param: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidInput(f"{param} must be base64 text.", param)
    return from_base64(text, param)


async def _form_fields(parts: list[tuple[str, UploadFile | str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in parts:
        key = name.removesuffix("[]")
        if not FIELD_NAME.fullmatch(key):
            raise unknown_field(key)
        if isinstance(value, UploadFile) != (key in FILE_FIELDS):
            expected = "a file" if key in FILE_FIELDS else "text"
            raise InvalidInput(f"{key} must be {expected}.", key)
        if isinstance(value, UploadFile):
            data = await value.read()
            if key == "image":
                fields.setdefault(key, []).append(data)
                continue
        if key in fields:
            raise InvalidInput(f"{key} is given twice.", key)
        fields[key] = data if isinstance(value, UploadFile) else value
    return fields
