"""A client's JSON, which must be one object: parsed in a time and memory that its size bounds.

A parser makes an object of every few bytes of `[[],[],...`, a hundred times their size, and
cannot be interrupted. So the brackets, commas, colons and quotes of a document are counted
first, and one that cannot be a request is refused unparsed: it may have as many as the fields
need, and no value longer than a picture.
"""

from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from scanline.server.api.base.errors import ApiError
from scanline.server.api.payload import offload
from scanline.server.api.payload.schemas import MAX_PROMPT_CHARACTERS

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


@dataclass(frozen=True)
class JsonLimits:
    """What a document may have besides its fields."""

    pictures: int = 0
    picture_length: int = 0  # of the longest in base64


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
            [_whole(each) for each in value] if isinstance(value, list) else _whole(value)
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
