"""Multipart forms, parsed a few kilobytes at a time and kept in
memory: no part is ever written to a disk.

Each part is bounded by what it may hold, so the whole form is: a
picture, a code, or the text of a field.
"""

import asyncio
import re
from collections.abc import AsyncGenerator

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from scanline.model.base.inputs import InvalidInput
from scanline.server.api.base.errors import ApiError

MAX_FORM_FIELDS = 64  # without the files; no request has as many
MAX_TEXT_BYTES = 65_536  # of one field
CHUNK_BYTES = 16_384  # parsed in two milliseconds, whatever is in them
MAX_PARAMETERS = 8  # of a part: python-multipart takes the square of their number
PARTS_PER_TURN = 64  # that are read before the event loop runs anything else
# Without dashes and underscores. Some of Python's others take a
# time quadratic in the text's length.
CHARSETS = (b"utf8", b"usascii", b"ascii", b"iso88591", b"latin1")
# older urllib3 sends this name of a file alone, which python-multipart ignores
EXTENDED_FILENAME = re.compile(rb";\s*filename\*[*\d]*\s*=", re.IGNORECASE)
# of parts that are files, as clients number or name them
FILE_NAMES = re.compile(r"(images?|mask|code)(\[\d*\])?")

Part = tuple[str, bytes | str]  # name, content of a file or a text


class FormParser(MultiPartParser):
    """starlette's parser with a limit of each file's size."""

    spool_max_size = 0  # keep every file in memory

    def __init__(
        self,
        headers: Headers,
        stream: AsyncGenerator[bytes, None],
        max_files: int,
        max_file_bytes: int,
    ) -> None:
        super().__init__(
            headers,
            stream,
            max_files=max_files,
            max_fields=MAX_FORM_FIELDS,
            max_part_size=MAX_TEXT_BYTES,
        )
        self.max_file_bytes = max_file_bytes
        self.file_bytes = 0  # of the current part
        self.has_ended = False

    def on_end(self) -> None:
        self.has_ended = True
        super().on_end()

    def on_headers_finished(self) -> None:
        """Start a file where the part has a file's name in any spelling, or its field holds files:
        .NET and Node name no file where a program sends bytes."""
        self.file_bytes = 0
        part = self._current_part
        if (part.content_disposition or b"").count(b";") > MAX_PARAMETERS:
            message = f"A part of the form has more than {MAX_PARAMETERS} parameters in its Content-Disposition."
            raise ApiError("invalid_multipart", message)
        disposition = EXTENDED_FILENAME.sub(b"; filename=", part.content_disposition or b"")
        _, options = parse_options_header(disposition)
        name = options.get(b"name", b"").decode("latin-1")
        if b"filename" not in options and FILE_NAMES.fullmatch(name):
            disposition += b'; filename=""'
        part.content_disposition = disposition
        super().on_headers_finished()

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Take in a part's data; InvalidInput where a file is too large."""
        if self._current_part.file is not None:
            self.file_bytes += end - start
            if self.file_bytes > self.max_file_bytes:
                raise InvalidInput(
                    f"A file of the form is larger than {self.max_file_bytes} bytes.",
                    code="too_large",
                )
        super().on_part_data(data, start, end)


async def read_form(
    request: Request, files: str, max_files: int, max_file_bytes: int
) -> list[Part]:
    """Return the parts of a request's form; raises ApiError or InvalidInput where it is wrong or
    too large. files: the field of them."""
    _, options = parse_options_header(request.headers["content-type"])
    charset = options.get(b"charset", b"utf-8").lower()
    if charset.translate(None, b"-_") not in CHARSETS:
        raise ApiError("invalid_multipart", "The form's charset must be UTF-8.")
    # One file more than pictures: it may be a mask.
    parser = FormParser(
        request.headers, _in_chunks(request.stream()), max_files + 1, max_file_bytes
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise _refusal(error.message, files, max_files) from None
    if not parser.has_ended:
        raise ApiError("invalid_multipart", "The form ends before its closing boundary.")
    parts: list[Part] = []
    for name, value in form.multi_items():
        content = await value.read() if isinstance(value, UploadFile) else value
        # A page's form sends a field that was left empty, and a file without
        # name and content where none was chosen.
        if content or (isinstance(value, UploadFile) and value.filename):
            parts.append((name, content))
        if not len(parts) % PARTS_PER_TURN:
            await asyncio.sleep(0)
    return parts


async def _in_chunks(stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield a body in small chunks; the event loop runs between them."""
    async for received in stream:
        for start in range(0, len(received), CHUNK_BYTES):
            yield received[start : start + CHUNK_BYTES]
            await asyncio.sleep(0)


def _refusal(reason: str, files: str, max_files: int) -> ApiError | InvalidInput:
    """Return the error for a form that starlette's parser refuses."""
    if reason.startswith("Too many files"):
        return too_many_files(files, max_files)
    if reason.startswith("Too many fields"):
        message = f"The form has more than {MAX_FORM_FIELDS} text fields."
    elif reason.startswith("Part exceeded"):
        message = f"A text field of the form is larger than {MAX_TEXT_BYTES} bytes."
    else:
        message = f"The body is not valid multipart: {reason}"
    return ApiError("invalid_multipart", message)


def too_many_files(name: str, most: int) -> InvalidInput:
    """Return the error for a request with too many pictures or codes; name: of their field."""
    kind = "pictures" if name == "image" else "codes"
    return InvalidInput(f"{name}: a request may have at most {most} {kind}.", name)
