"""A client's JSON, which must be one object: parsed in a time and memory that its size bounds.

A parser makes an object of every few bytes of `[[],[],...`, a hundred times their size, and
cannot be interrupted. So the brackets, commas, colons and quotes of a document are counted
first, and one that cannot be a request is refused unparsed: it may have as many as the fields
need, and no value longer than a picture.
"""

from codecs import BOM_UTF8
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from pydantic_core import from_json

from scanline.server.api.base.errors import ApiError, unknown_field
from scanline.server.api.payload import offload
from scanline.server.api.payload.accept import takes_json
from scanline.server.api.payload.schemas import MAX_PROMPT_CHARACTERS, field_names

COUNTED = b'[]{},:"'
OTHERS = bytes(set(range(256)) - {*COUNTED, *b"\\"})  # make no object
FIELDS_BYTES = 4096  # COUNTED of all fields but the pictures
PICTURE_BYTES = 24  # COUNTED around a picture's base64 and in the start of a data URL
# one in so many bytes may be a backslash: base64 needs none, but some programs escape its slashes
ESCAPED_SHARE = 16
# of a value that is no picture, each character two of \uD83D
MAX_TEXT_BYTES = 12 * MAX_PROMPT_CHARACTERS + 2
INLINE_BYTES = 65_536  # parsed within a millisecond
CHUNK_BYTES = 1_048_576  # counted at once: a millisecond
MAX_CONTENT_TYPE = 256  # bytes; a boundary has 70 at most
Fields = TypeVar("Fields", bound=BaseModel)


@dataclass(frozen=True)
class JsonLimits:
    """What a document may have besides its fields."""

    pictures: int = 0
    picture_length: int = 0  # of the longest in base64


async def read_json(request: Request, schema: type[Fields]) -> Fields:
    """Read a request without pictures; raises ApiError or InvalidInput
    if the body or a field is wrong.
    """
    check_encoding(request)
    if (document := await json_document(request)) is None:
        raise ApiError("unsupported_media_type", "Send application/json.")
    body = await parse_object(document, JsonLimits())
    check_names(body, schema)
    return schema.model_validate(body)


async def json_document(request: Request) -> bytearray | None:
    """Return the body of a request that is JSON: by its Content-Type, or by how it begins where
    that is another text's, as `curl -d` and beacons of pages send it, or missing. None for
    other bodies, which may be unread."""
    kind = kind_of(request)
    is_named = takes_json(kind)
    if not is_named and kind not in ("", "text/plain", "application/x-www-form-urlencoded"):
        return None
    document = await body_of(request)
    is_object = document[:8].lstrip(BOM_UTF8 + b" \t\r\n").startswith(b"{")
    return document if is_named or is_object else None


def check_encoding(request: Request) -> None:
    """Raise ApiError where the body is compressed."""
    if request.headers.get("content-encoding", "").lower() not in ("", "identity", "utf-8"):
        raise ApiError("unsupported_encoding", "Send the body without a Content-Encoding.")


async def body_of(request: Request) -> bytearray:
    """Return the body; `Request.body` would have it in memory twice."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
    return body


def check_names(names: Collection[str], schema: type[BaseModel]) -> None:
    """Raise InvalidInput where a field is not of the schema: pydantic would make
    an error of each such field first.
    """
    known = field_names(schema)
    for name in names:
        if name not in known:
            raise unknown_field(name)


def kind_of(request: Request) -> str:
    """Return the media type of the body; ApiError for a header longer than any
    client's, before a library splits it.
    """
    written = request.headers.get("content-type", "")
    if len(written) > MAX_CONTENT_TYPE:
        message = f"The Content-Type is longer than {MAX_CONTENT_TYPE} bytes."
        raise ApiError("unsupported_media_type", message)
    return written.partition(";")[0].strip().lower()


async def parse_object(
    document: bytes | bytearray, limits: JsonLimits, what: str = "body"
) -> dict[str, Any]:
    """Return the object of a document; raises ApiError if it is none, or not within the limits.

    what: the document's name in errors.
    """
    if len(document) <= INLINE_BYTES:
        parsed = _parse(document, limits, what)
    else:
        parsed = await offload.run(lambda: _parse(document, limits, what))
    if not isinstance(parsed, dict):
        raise ApiError("invalid_body", f"The {what} must be a JSON object.")
    for name, value in parsed.items():
        parsed[name] = (
            [_whole(item) for item in value] if isinstance(value, list) else _whole(value)
        )
    return parsed


def _whole(value: Any) -> Any:
    """Return a number such as 1.0 as a whole one, which it is in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse(document: bytes | bytearray, limits: JsonLimits, what: str) -> Any:
    if not _may_be_request(document, limits):
        message = f"The {what} has more fields, or a longer value, than any request."
        raise ApiError("json_too_complex", message)
    try:
        # of its own limits: 200 levels, numbers of 4,300 digits
        return from_json(document.removeprefix(BOM_UTF8))
    except ValueError:
        raise ApiError("invalid_json", f"The {what} is not valid JSON.") from None


def _may_be_request(document: bytes | bytearray, limits: JsonLimits) -> bool:
    """Return whether a document is within the limits, as far as can be seen without parsing it."""
    others = 0
    escapes = 0
    most_others = FIELDS_BYTES + PICTURE_BYTES * limits.pictures
    for start in range(0, len(document), CHUNK_BYTES):
        rest = document[start : start + CHUNK_BYTES].translate(None, OTHERS)
        escapes += rest.count(b"\\")
        others += len(rest) - rest.count(b"\\")
        if (
            others > most_others
            or escapes > 2 * MAX_PROMPT_CHARACTERS + len(document) // ESCAPED_SHARE
        ):
            return False
    # Values lie between quotes. There are few quotes now, so that finding each costs little.
    longest = max(MAX_TEXT_BYTES, limits.picture_length * (ESCAPED_SHARE + 1) // ESCAPED_SHARE)
    place = -1
    while (end := document.find(b'"', place + 1)) >= 0:
        if end - place > longest:
            return False
        place = end
    return len(document) - place <= longest
