"""The parser of JSON objects: equal to the standard library's; what no request can be is refused unparsed."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.server.api.errors import MAX_QUOTED, ApiError, quoted
from scanline.server.api.payload.json_object import INLINE_BYTES, JsonLimits, parse_object
from scanline.server.api.payload.schemas import MAX_PROMPT_CHARACTERS

LIMITS = JsonLimits(pictures=1000, picture_length=100_000)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def parsed(document: bytes, limits: JsonLimits = LIMITS) -> dict[str, Any]:
    return asyncio.run(parse_object(document, limits))


def code(document: bytes, limits: JsonLimits = LIMITS) -> str | None:
    with pytest.raises(ApiError) as refusal:
        parsed(document, limits)
    assert refusal.value.status == 400
    return refusal.value.code


@given(st.dictionaries(st.text(), VALUES))
def test_an_object_is_parsed_as_by_the_standard_library(value: dict[str, Any]) -> None:
    document = json.dumps(value).encode()
    assert parsed(document) == json.loads(document)


@given(st.binary(max_size=50))
def test_any_bytes_are_an_object_or_refused(document: bytes) -> None:
    found: object = None
    try:
        found = parsed(document)
    except ApiError as refusal:
        found = refusal.code
    assert isinstance(found, dict) or found in ("invalid_json", "invalid_body")


@pytest.mark.parametrize("indent", [None, 8])
def test_many_pictures_are_accepted_however_they_are_written(indent: int | None) -> None:
    fields = {"image": ["data:image/png;base64," + "A/+b" * 100] * 1000, "mask": "A" * 100_000, "n": 1}
    document = json.dumps(fields, indent=indent).encode()
    assert len(document) > INLINE_BYTES
    assert parsed(document) == fields
    assert parsed(document.replace(b"A/+b" * 50, rb"A\/+bAAAAAAAAAAAA" * 12))["n"] == 1  # slashes escaped


@pytest.mark.parametrize("size", [50_000, 5_000_000])
def test_more_than_any_request_has_is_refused_unparsed(size: int) -> None:
    limits = JsonLimits(pictures=10, picture_length=40_000)
    long_texts = (rb"\u0041", rb"\/", "é".encode(), b" ") if size > 50_000 else ()
    for unit in (b"[],", b"{},", b'"",', b"1,", b"[", b'{"a":', *long_texts):
        document = b'{"a": "' + unit * (size // len(unit))
        assert code(document, limits) == "json_too_complex", unit


def test_a_value_longer_than_any_picture_is_refused() -> None:
    for start, end in ((b'{"a": "', b'"}'), (b'{"a": ', b"}"), (b'{"', b'": 1}'), (b"", b"")):
        assert code(start + b"1" * 400_000 + end) == "json_too_complex"


@pytest.mark.parametrize("is_ascii", [False, True])
def test_a_prompt_of_any_characters_is_read(is_ascii: bool) -> None:
    fields = {"prompt": "\U0001f600" * MAX_PROMPT_CHARACTERS}
    assert parsed(json.dumps(fields, ensure_ascii=is_ascii).encode()) == fields


def test_short_values_are_repeated_as_they_are() -> None:
    for value in ("gray", 7, None, ["a", 1], {"a": 1}, 0.5):
        assert quoted(value) == repr(value)
    for value in ("a" * 10**7, 10**4000, ["a" * 10**7] * 10, {"a" * 10**7: "b"}, [[[[[["a"]]]]]] * 1000):
        assert len(quoted(value)) <= MAX_QUOTED
