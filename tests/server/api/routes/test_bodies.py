"""Pictures, forms and bodies that cannot be read: each a 4xx error that names what is wrong."""

import gzip
import json
import zlib

import pytest

from tests.support.pictures import encode, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.hostile_pictures import chunk
from tests.support.server.json_requests import IMAGE, MASKED
from tests.support.server.routes import EDITS, GENERATIONS, LIKELIHOODS

FILE = encode(IMAGE)
JSON = {"content-type": "application/json"}


def with_chunk(kind, data):
    """The picture with another chunk behind its header."""
    return FILE[:33] + chunk(kind, data) + FILE[33:]


def test_pixels_behind_the_last_are_not_decompressed_and_a_large_comment_is_no_pixel(client):
    """A bomb in the picture itself, of which only the rows are decompressed; a
    file that is decoded in a thread.
    """

    def scored(data):
        return client.post(LIKELIHOODS, json={"image": text(data)})

    packed = chunk(b"IDAT", zlib.compress((b"\0" + b"\1" * 5) * 7 + bytes(10_000_000)))
    assert scored(FILE[:33] + packed + FILE[-12:]).status_code == 200
    commented = scored(with_chunk(b"tEXt", b"a\0" + b"b" * 200_000))
    assert commented.json()["data"] == scored(FILE).json()["data"]


UPLOAD = ("upload", FILE, "application/octet-stream")
CUT_OFF = b'--x\r\ncontent-disposition: form-data; name="n"\r\n\r\n4\r\n'
MULTIPART = {"content-type": "multipart/form-data; boundary=x"}
GZIP = {**JSON, "content-encoding": "gzip"}
INVALID = (400, "invalid_value")
# label: the request, the parameter, status and code
EDITED = {
    "no image": ({"files": {"mask": UPLOAD}}, "image", (400, "missing_parameter")),
    "text where a file belongs": (
        {"files": {"image": (None, b"seven.png")}, "data": {"keep_rows": "3"}},
        "image",
        (400, "invalid_image"),
    ),
    "a file where text belongs": (
        {"files": {"image": UPLOAD, "keep_rows": UPLOAD}},
        "keep_rows",
        INVALID,
    ),
    "a field twice": (
        {"files": {"image": UPLOAD}, "data": {"n": ["1", "2"], "keep_rows": "3"}},
        "n",
        INVALID,
    ),
    "a misspelt list": (
        {"files": {"image": UPLOAD}, "data": {"seeds[]": "1"}},
        "seeds",
        (400, "unknown_parameter"),
    ),
    "a field of fields": ({"json": {"a": {"b": 1}}}, "a", (400, "unknown_parameter")),
    "a field of fields in a form": (
        {"files": {"image": UPLOAD}, "data": {"a[b]": "1"}},
        "a[b]",
        (400, "unknown_parameter"),
    ),
    "a file of another name": (
        {"files": {"picture": UPLOAD}},
        "picture",
        (400, "unknown_parameter"),
    ),
    "an object of another kind": ({"json": {**MASKED, "mask": {"file_id": "x"}}}, "mask", INVALID),
    "a form that is cut off": (
        {"content": CUT_OFF, "headers": MULTIPART},
        None,
        (400, "invalid_multipart"),
    ),
    "a form without pictures": (
        {"data": {"keep_rows": "3"}},
        None,
        (415, "unsupported_media_type"),
    ),
    "a compressed body": (
        {"content": gzip.compress(json.dumps(MASKED).encode()), "headers": GZIP},
        None,
        (415, "unsupported_encoding"),
    ),
}


@pytest.mark.parametrize("label", EDITED)
def test_the_invalid_part_is_named(client, label):
    request, param, (status, code) = EDITED[label]
    assert_refused(client.post(EDITS, **request), status, param, code)


BODIES = {  # the code: bodies that are no JSON object
    "invalid_body": [b'[{"n": 4}]', b'"n"'],
    "invalid_json": [
        b"",
        b"n=4&seed=7",
        b'{"\\ud800": 1}',
        b'{"n": "\xff"}',
        b"[" * 1000 + b"]" * 1000,
        b'{"n": ' + b"9" * 10_000 + b"}",
    ],
    "json_too_complex": [
        b"[" * 99_999,
        b"{" + b'"a":1,' * 99_999 + b'"a":1}',
        b'{"user":"' + b"\\/" * 99_999 + b'"}',
    ],
}


@pytest.mark.parametrize("url", [GENERATIONS, EDITS, LIKELIHOODS])
@pytest.mark.parametrize("code", BODIES)
def test_a_body_that_is_no_object_is_refused(client, url, code):
    for content in BODIES[code]:
        assert_refused(client.post(url, content=content, headers=JSON), 400, None, code)


@pytest.mark.parametrize("url", [GENERATIONS, EDITS, LIKELIHOODS])
def test_a_body_that_is_too_large_is_refused_with_a_length_and_in_chunks(colour_client, url):
    whole = b'{"user": "' + b"x" * 100_000 + b'"}'
    chunks = iter((b'{"user": "', *[b"x" * 1000] * 200, b'"}'))
    for content in (whole, chunks):
        response = colour_client.post(url, content=content, headers=JSON)
        assert_refused(response, 413, None, "body_too_large")
