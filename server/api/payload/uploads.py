"""Request bodies. Those with pictures or codes are multipart, as the official client sends them, or
JSON with base64; a code may also be the body itself.

All become the same fields, checked by the same schema. In multipart, numbers and booleans are
text and a list of images is a repeated `image[]` part; in JSON, `image` is one string or a
list of strings. Nothing is validated, decoded or copied before its size and its number are
known to be what a request may have.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel

from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.code_file import MEDIA_TYPE
from scanline.model.images.pictures import MAX_RESIZED_BYTES, from_base64, max_file_bytes
from scanline.server.api.base.cancellation import deadline, until_disconnect
from scanline.server.api.base.errors import ApiError
from scanline.server.api.payload import offload
from scanline.server.api.payload.form_parser import MAX_TEXT_BYTES, Part, read_form, too_many_files
from scanline.server.api.payload.json_object import (
    JsonLimits,
    body_of,
    check_encoding,
    check_names,
    json_document,
    kind_of,
    parse_object,
)
from scanline.server.api.payload.schemas import MaskFields, PictureFields
from scanline.server.models.registry import ModelRegistry

Fields = TypeVar("Fields", bound=BaseModel)
PICTURE_NAME = re.compile(r"images?(\[\d*\])?")  # as clients number or name a form's pictures
BYTES = "application/octet-stream"
LISTS = ("image", "code")  # fields of several files
FILE_FIELDS = (*LISTS, "mask", "markup")  # markup is refused, by the schema
# decoded from base64 in a few milliseconds; in a form only the body's size is limited
MAX_JSON_CODE_BYTES = 2**21
MAX_MESSAGE_TEXT = 65_536  # bytes of a websocket message besides its pictures


def max_picture_bytes(models: ModelRegistry) -> int:
    """Return the bytes of the largest picture file, in JSON, that any of the models reads."""
    return max(
        max_file_bytes(model.config.width, model.config.height) for model in models.all.values()
    )


def json_limits(models: ModelRegistry) -> JsonLimits:
    """Return what a JSON object with pictures may have."""
    # one may be a mask
    return JsonLimits(models.max_images + 1, _base64_length(max_picture_bytes(models)))


def max_message_bytes(models: ModelRegistry) -> int:
    """Return the bytes that a websocket message needs at most: an image and a
    mask in base64, and the other fields.

    Several images fit in where their files are smaller than the largest that
    is read, as they nearly always are.
    """
    return 2 * _base64_length(max_picture_bytes(models)) + MAX_MESSAGE_TEXT


async def read_fields(request: Request, schema: type[Fields], models: ModelRegistry) -> Fields:
    """Read a request with pictures for one of the models; raises
    ApiError or InvalidInput if it is wrong.
    """
    kind = kind_of(request)
    has_codes = "code" in schema.model_fields
    check_encoding(request)
    if kind == "multipart/form-data":
        most = max(MAX_RESIZED_BYTES, max_picture_bytes(models))
        files = (
            ("code", models.max_images, sys.maxsize)
            if has_codes
            else ("image", models.max_images, most)
        )
        return schema.model_validate(
            await _form_fields(await read_form(request, *files), schema), strict=False
        )
    if has_codes and kind in (MEDIA_TYPE, BYTES):
        return schema.model_validate({"code": [bytes(await body_of(request))]})
    if (document := await json_document(request)) is not None:
        codes = JsonLimits(models.max_images, _base64_length(MAX_JSON_CODE_BYTES))
        limits = codes if has_codes else json_limits(models)
        async with deadline(models.request_timeout), until_disconnect(request):
            return await from_json(await parse_object(document, limits), schema, models)
    code_type = f", {MEDIA_TYPE}" if has_codes else ""
    raise ApiError(
        "unsupported_media_type", f"Send multipart/form-data{code_type} or application/json."
    )


async def from_json(body: dict[str, Any], schema: type[Fields], models: ModelRegistry) -> Fields:
    """Return the fields of a JSON object with base64 pictures or codes as `schema`;
    InvalidInput where one is wrong.
    """
    if "image" in schema.model_fields:
        body = _with_texts(body)
    check_names(body, schema)
    texts: list[tuple[str, Any]] = []
    for name in body.keys() & LISTS:
        sent = body[name] if isinstance(body[name], list) else [body[name]]
        if len(sent) > models.max_images:
            raise too_many_files(name, models.max_images)
        texts += [(name, text) for text in sent]
    if body.get("mask") is not None:
        texts.append(("mask", body["mask"]))
    size = sum(len(text) for _, text in texts if isinstance(text, str))
    most = MAX_JSON_CODE_BYTES if "code" in body else max_picture_bytes(models)
    files = await offload.collect(_decoded(texts, most), size)
    fields = dict(body)
    if fields.get("mask") is not None:
        fields["mask"] = files.pop()
    for name in body.keys() & LISTS:
        fields[name] = files
    return schema.model_validate(fields)


def _with_texts(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with texts for pictures: the official API's edits
    have objects, `images` and `mask`.
    """
    body = dict(body)
    if "images" in body and "image" not in body:
        pictures = body.pop("images")
        body["image"] = [
            _text_of(picture, "images")
            for picture in (pictures if isinstance(pictures, list) else [pictures])
        ]
    if isinstance(body.get("mask"), dict):
        body["mask"] = _text_of(body["mask"], "mask")
    return body


def _text_of(picture: Any, param: str) -> Any:
    """Return the data URL of a picture, which may be an object that holds
    it; InvalidInput for other objects.
    """
    if not isinstance(picture, dict):
        return picture
    if set(picture) != {"image_url"}:
        raise InvalidInput(
            f"{param}: a picture must be base64 text or an object with image_url alone.", param
        )
    return picture["image_url"]


def uploads(fields: BaseModel) -> list[bytes]:
    """Return the encoded pictures of a request, the mask last."""
    if not isinstance(fields, PictureFields):
        return []
    if isinstance(fields, MaskFields) and fields.mask is not None:
        return [*fields.image, fields.mask]
    return fields.image


def _text(value: bytes | str, key: str) -> str:
    """Return the text of a field that was sent as a file, as
    `requests` does of `files={"seed": "4"}`.
    """
    if isinstance(value, bytes) and len(value) <= MAX_TEXT_BYTES:
        with suppress(UnicodeDecodeError):
            return value.decode()
    raise InvalidInput(f"{key} must be {'text' if isinstance(value, bytes) else 'a file'}.", key)


def _decoded(texts: list[tuple[str, Any]], max_bytes: int) -> Iterator[bytes]:
    """Yield the files of base64 texts, each with the name of its field;
    InvalidInput where one is wrong.
    """
    for param, text in texts:
        if not isinstance(text, str):
            raise InvalidInput(f"{param} must be base64 text.", param)
        if len(text) > _base64_length(max_bytes):
            raise InvalidInput(f"{param} is larger than {max_bytes} bytes.", param, "too_large")
        yield from_base64(text, param)


def _base64_length(size: int) -> int:
    """Return the number of characters of a data URL of so many bytes, in
    lines of 76 between escaped ends.
    """
    return len("data:application/octet-stream;base64,") + 4 * ((size + 2) // 3) * 80 // 76


async def _form_fields(parts: list[Part], schema: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a form's parts; InvalidInput where a name is unknown or
    repeated, or a part is misplaced.
    """
    size = sum(len(value) for _, value in parts if value.isascii())  # what may be base64
    fields: dict[str, Any] = {}
    for key, value in await offload.collect((_form_field(*part, schema) for part in parts), size):
        if key in LISTS:
            fields.setdefault(key, []).append(value)
        elif key in fields:
            raise InvalidInput(f"{key} is given twice.", key)
        else:
            fields[key] = value
    return fields


def _form_field(name: str, value: bytes | str, schema: type[BaseModel]) -> tuple[str, bytes | str]:
    """Return the field of a part, and its text or file."""
    is_picture = "image" in schema.model_fields and PICTURE_NAME.fullmatch(name)
    key = "image" if is_picture else name.removesuffix("[]")
    check_names([key], schema)
    if isinstance(value, bytes) != (key in FILE_FIELDS):
        return key, _text(value, key)
    if isinstance(value, bytes) and len(value) <= MAX_TEXT_BYTES and value.isascii():
        with suppress(InvalidInput):  # the data URL of a canvas, say; no file that is read is ASCII
            return key, from_base64(value.decode(), key)
    return key, value
