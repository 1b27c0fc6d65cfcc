"""A client's JSON, which must be one object: parsed in a time and memory that its size bounds.

A parser makes an object of every few bytes of `[[],[],...`, a hundred times their size, and cannot be interrupted. So
brackets, quotes, commas and colons are counted first, and a document with more of them than any valid request could
have is refused. What is left is a few long strings, which are parsed at the speed of memory.
"""

from typing import Any

from pydantic_core import from_json

from scanline.server.api import offload
from scanline.server.api.errors import ApiError

STRUCTURE = b'{[",:'
STRUCTURE_OF_FIELDS = 4096  # in all fields but the pictures, punctuation of their texts included
STRUCTURE_OF_PICTURE = 8  # quotes and comma; a data URL has a colon and a comma more
INLINE_BYTES = 65_536  # parsed within a millisecond
PIECE_BYTES = 1_048_576  # counted at once: a millisecond
PLAIN_SHARE = 4  # of so many bytes, one may be a backslash: base64 needs none, but some programs escape its slashes


async def parse_object(document: bytes, max_pictures: int, what: str = "body") -> dict[str, Any]:
    """Return the object of a document with at most `max_pictures` pictures; raises ApiError if it is not one.

    `what`: how errors call the document.
    """
    if len(document) <= INLINE_BYTES:
        parsed = _parse(document, max_pictures, what)
    else:
        parsed = await offload.run(lambda: _parse(document, max_pictures, what))
    if not isinstance(parsed, dict):
        raise ApiError(400, f"The {what} must be a JSON object.", code="invalid_body")
    return parsed


def _parse(document: bytes, max_pictures: int, what: str) -> Any:
    _check_structure(document, STRUCTURE_OF_FIELDS + STRUCTURE_OF_PICTURE * max_pictures, what)
    try:
        return from_json(document)
    except ValueError:
        raise ApiError(400, f"The {what} is not valid JSON.", code="invalid_json") from None


def _check_structure(document: bytes, most: int, what: str) -> None:
    """Raise ApiError where a document has more structure, or more escapes, than a request needs."""
    structure, escapes = 0, 0
    for start in range(0, len(document), PIECE_BYTES):
        piece = document[start : start + PIECE_BYTES]
        structure += len(piece) - len(piece.translate(None, STRUCTURE))
        escapes += piece.count(b"\\")
        if structure > most:
            message = f"The {what} has more than {most} brackets, quotes, commas and colons: more than any request has."
            raise ApiError(400, message, code="json_too_complex")
    if escapes > STRUCTURE_OF_FIELDS + len(document) // PLAIN_SHARE:
        message = f"More than a quarter of the {what} are escapes; send base64 without them."
        raise ApiError(400, message, code="json_too_complex")
