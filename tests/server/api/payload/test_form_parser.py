"""Forms are kept in memory, in parts of a bounded size."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers, UploadFile
from starlette.requests import Request
from starlette.types import Message

from scanline.model.inputs import InvalidInput
from scanline.server.api.errors import ApiError
from scanline.server.api.payload.form_parser import MAX_TEXT_BYTES, FormParser, Part, read_form

MULTIPART = "multipart/form-data; boundary=x"


def part(name: str, content: bytes, header: str = "") -> bytes:
    return f'--x\r\ncontent-disposition: form-data; name="{name}"{header}\r\n\r\n'.encode() + content + b"\r\n"


def file(name: str, content: bytes) -> bytes:
    return part(name, content, '; filename="a"')


def read(body: bytes, chunk: int, kind: str = MULTIPART, pictures: int = 3, picture_bytes: int = 1000) -> list[Part]:
    """The parts of a body that arrives in chunks."""
    chunks = [body[start : start + chunk] for start in range(0, len(body), chunk)]
    messages: list[Message] = [{"type": "http.request", "body": one, "more_body": True} for one in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return asyncio.run(read_form(Request(scope, receive), "image", pictures, picture_bytes))


@given(
    files=st.lists(st.binary(max_size=300).filter(lambda data: b"--x" not in data), max_size=4),
    texts=st.lists(st.text("aé😀 ", min_size=1, max_size=20), max_size=4),
    chunk=st.integers(1, 500),
)
def test_parts_are_read_however_they_arrive(files: list[bytes], texts: list[str], chunk: int) -> None:
    body = b"".join([file("image[]", one) for one in files] + [part("user", one.encode()) for one in texts])
    assert read(body + b"--x--\r\n", chunk) == [("image[]", one) for one in files] + [("user", one) for one in texts]


def test_no_part_is_written_to_a_disk() -> None:
    """A form of starlette's own parser goes to a temporary file from a megabyte on."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield file("image", b"a" * 5_000_000) + b"--x--\r\n"

    async def act() -> None:
        form = await FormParser(Headers({"content-type": MULTIPART}), stream(), 1, 10_000_000).parse()
        upload = form["image"]
        assert isinstance(upload, UploadFile)
        assert not upload.file._rolled  # type: ignore[attr-defined]
        assert len(await upload.read()) == 5_000_000

    asyncio.run(act())


def test_the_largest_parts_are_read() -> None:
    body = file("image", b"a" * 1000) * 3 + file("mask", b"a" * 1000) + part("user", b"a" * MAX_TEXT_BYTES)
    assert len(read(body + b"--x--\r\n", 777)) == 5


def test_larger_and_more_parts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="larger than 1000 bytes"):
        read(file("image", b"a" * 1001), 777)
    with pytest.raises(InvalidInput, match="at most 3 pictures"):
        read(file("image", b"a") * 5, 777)
    with pytest.raises(ApiError, match=f"text field of the form is larger than {MAX_TEXT_BYTES} bytes"):
        read(part("user", b"a" * (MAX_TEXT_BYTES + 1)), 777)
    with pytest.raises(ApiError, match="more than 64 text fields"):
        read(part("user", b"a") * 65, 777)


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-16", "seven"])
def test_only_common_charsets_are_decoded(charset: str) -> None:
    with pytest.raises(ApiError, match="charset"):
        read(part("user", b"a") + b"--x--\r\n", 777, f"{MULTIPART}; charset={charset}")
    assert read(part("user", b"a") + b"--x--\r\n", 777, f"{MULTIPART}; charset=UTF-8") == [("user", "a")]
