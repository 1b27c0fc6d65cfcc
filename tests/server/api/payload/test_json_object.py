"""Bodies as they arrive: JSON objects and forms, parsed within bounds."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers, UploadFile
from starlette.requests import Request

from scanline.model.base.inputs import InvalidInput
from scanline.server.api.base.errors import MAX_QUOTED, ApiError, quoted
from scanline.server.api.payload.form_parser import MAX_TEXT_BYTES, FormParser, read_form
from scanline.server.api.payload.json_object import INLINE_BYTES, JsonLimits, parse_object
from scanline.server.api.payload.schemas import MAX_PROMPT_CHARACTERS

LIMITS = JsonLimits(pictures=1000, picture_length=100_000)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def parsed(document, limits=LIMITS):
    return asyncio.run(parse_object(document, limits))


def code(document, limits=LIMITS):
    with pytest.raises(ApiError) as refusal:
        parsed(document, limits)
    assert refusal.value.status == 400
    return refusal.value.code


@given(st.dictionaries(st.text(), VALUES))
def test_an_object_is_parsed_as_by_the_standard_library(value):
    document = json.dumps(value).encode()
    assert parsed(document) == json.loads(document)


@given(st.binary(max_size=50))
def test_any_bytes_are_an_object_or_refused(document):
    try:
        found = parsed(document)
    except ApiError as refusal:
        found = refusal.code
    assert isinstance(found, dict) or found in ("invalid_json", "invalid_body")


@pytest.mark.parametrize("indent", [None, 8])
def test_many_pictures_are_accepted_however_they_are_written(indent):
    fields = {
        "image": ["data:image/png;base64," + "A/+b" * 100] * 1000,
        "mask": "A" * 100_000,
        "n": 1,
    }
    document = json.dumps(fields, indent=indent).encode()
    assert len(document) > INLINE_BYTES
    assert parsed(document) == fields
    # slashes escaped
    assert parsed(document.replace(b"A/+b" * 50, rb"A\/+bAAAAAAAAAAAA" * 12))["n"] == 1


@pytest.mark.parametrize("size", [50_000, 5_000_000])
def test_more_than_any_request_has_is_refused_unparsed(size):
    limits = JsonLimits(pictures=10, picture_length=40_000)
    long_texts = (rb"\u0041", rb"\/", "é".encode(), b" ") if size > 50_000 else ()
    for unit in (b"[],", b"{},", b'"",', b"1,", b"[", b'{"a":', *long_texts):
        document = b'{"a": "' + unit * (size // len(unit))
        assert code(document, limits) == "json_too_complex", unit


def test_a_value_longer_than_any_picture_is_refused():
    for start, end in ((b'{"a": "', b'"}'), (b'{"a": ', b"}"), (b'{"', b'": 1}'), (b"", b"")):
        assert code(start + b"1" * 400_000 + end) == "json_too_complex"


@pytest.mark.parametrize("is_ascii", [False, True])
def test_a_prompt_of_any_characters_is_read(is_ascii):
    fields = {"prompt": "\U0001f600" * MAX_PROMPT_CHARACTERS}
    assert parsed(json.dumps(fields, ensure_ascii=is_ascii).encode()) == fields


def test_short_values_are_repeated_as_they_are():
    for value in ("gray", 7, None, ["a", 1], {"a": 1}, 0.5):
        assert quoted(value) == repr(value)
    for value in (
        "a" * 10**7,
        10**4000,
        ["a" * 10**7] * 10,
        {"a" * 10**7: "b"},
        [[[[[["a"]]]]]] * 1000,
    ):
        assert len(quoted(value)) <= MAX_QUOTED


MULTIPART = "multipart/form-data; boundary=x"


def part(name, content, header=""):
    return (
        f'--x\r\ncontent-disposition: form-data; name="{name}"{header}\r\n\r\n'.encode()
        + content
        + b"\r\n"
    )


def file(name, content):
    return part(name, content, '; filename="a"')


def read(body, chunk, kind=MULTIPART, pictures=3, picture_bytes=1000):
    chunks = [*(body[start : start + chunk] for start in range(0, len(body), chunk)), b""]
    messages = [{"type": "http.request", "body": one, "more_body": bool(one)} for one in chunks]

    async def receive():
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return asyncio.run(read_form(Request(scope, receive), "image", pictures, picture_bytes))


@given(
    files=st.lists(st.binary(max_size=300).filter(lambda data: b"--x" not in data), max_size=4),
    texts=st.lists(st.text("aé😀 ", min_size=1, max_size=20), max_size=4),
    chunk=st.integers(1, 500),
)
def test_parts_are_read_however_they_arrive(files, texts, chunk):
    body = b"".join(
        [file("image[]", one) for one in files] + [part("user", one.encode()) for one in texts]
    )
    assert read(body + b"--x--\r\n", chunk) == [("image[]", one) for one in files] + [
        ("user", one) for one in texts
    ]


def test_no_part_is_written_to_a_disk():
    """A form of starlette's own parser goes to a temporary file from a megabyte on."""

    async def stream():
        yield file("image", b"a" * 5_000_000) + b"--x--\r\n"

    async def act():
        upload = (
            await FormParser(Headers({"content-type": MULTIPART}), stream(), 1, 10_000_000).parse()
        )["image"]
        assert isinstance(upload, UploadFile)
        assert not upload.file._rolled
        return await upload.read()

    assert len(asyncio.run(act())) == 5_000_000


def test_the_largest_parts_are_read_and_larger_and_more_parts_are_refused():
    body = (
        file("image", b"a" * 1000) * 3
        + file("mask", b"a" * 1000)
        + part("user", b"a" * MAX_TEXT_BYTES)
    )
    assert len(read(body + b"--x--\r\n", 777)) == 5
    for body, sentence in (
        (file("image", b"a" * 1001), "larger than 1000 bytes"),
        (file("image", b"a") * 5, "at most 3 pictures"),
        (
            part("user", b"a" * (MAX_TEXT_BYTES + 1)),
            f"text field of the form is larger than {MAX_TEXT_BYTES} bytes",
        ),
        (part("user", b"a") * 65, "more than 64 text fields"),
    ):
        with pytest.raises((ApiError, InvalidInput), match=sentence):
            read(body, 777)


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-16", "seven"])
def test_only_common_charsets_are_decoded(charset):
    with pytest.raises(ApiError, match="charset"):
        read(part("user", b"a") + b"--x--\r\n", 777, f"{MULTIPART}; charset={charset}")
    assert read(part("user", b"a") + b"--x--\r\n", 777, f"{MULTIPART}; charset=UTF-8") == [
        ("user", "a")
    ]
