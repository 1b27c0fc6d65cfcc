"""Invalid fields, pictures, codes and bodies: each a 4xx error of the one
shape, which names what is wrong.
"""

import io
import json
import zlib
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.hostile_pictures import END, SIGNATURE, chunk, header, of_scans, pixels
from tests.support.server.json_requests import IMAGE, MASKED
from tests.support.server.routes import (
    CLASSIFICATIONS,
    CODES,
    DECODINGS,
    EDITS,
    GENERATIONS,
    LIKELIHOODS,
    STEPS,
)
from tests.support.server.running_server import Server
from tests.support.shapes import MAX_IMAGES

FILE = encode(IMAGE)
GIVEN = MASKED["image"]
MASK = MASKED["mask"]
KNOWN = np.full((7, 5), 255, np.uint8)
BETWEEN = KNOWN.copy()  # a value between black and white
BETWEEN[0, 0], BETWEEN[3:] = 128, 0
ALL = text(encode(KNOWN))
NOTHING = text(encode(KNOWN * 0))
LOW = text(encode(noise(6, 5)))
CUT = text(FILE[:50])
ROWS = {"keep_rows": 3}
RESIZED = {"size_policy": "resize"}
INVALID = "invalid_value"
UNKNOWN = "unknown_parameter"
# route, a field, wrong values of it, and the code; what is beside it. None
# leaves a field out; the field is named.
WRONG: list[tuple[str, str, list[Any], str, dict[str, Any]]] = [
    (GENERATIONS, "n", [0, 2001, "4"], INVALID, {}),
    (GENERATIONS, "seed", [-2, 2**63], INVALID, {}),
    (GENERATIONS, "temperature", [-0.1, 3, float("nan")], INVALID, {}),
    (GENERATIONS, "guidance", [2], "guidance_not_supported", {}),  # of a model without classes
    (GENERATIONS, "temprature", [0.9], UNKNOWN, {}),
    (GENERATIONS, "keep_rows", [4], UNKNOWN, {}),
    (GENERATIONS, "prompt", ["a cat"], "prompt_not_supported", {}),
    (GENERATIONS, "size", ["28x28"], INVALID, {}),
    (GENERATIONS, "size", ["large", "0x5", "2049x5"], INVALID, RESIZED),
    (GENERATIONS, "size", ["2048x2048"], INVALID, {"n": 5, **RESIZED}),
    (GENERATIONS, "response_format", ["bytes"], INVALID, {}),
    (GENERATIONS, "output_format", ["jpeg"], INVALID, {}),
    (GENERATIONS, "partial_images", [2], INVALID, {}),
    (GENERATIONS, "partial_images", [4], INVALID, {"stream": True}),
    (GENERATIONS, "background", ["transparent"], "unsupported_parameter", {}),
    (EDITS, "image", [None], "missing_parameter", ROWS),
    (EDITS, "image", [[], 7], INVALID, ROWS),
    (EDITS, "image", ["seven!", "https://localhost/seven.png"], "invalid_base64", ROWS),
    (EDITS, "image", [[GIVEN, CUT]], "invalid_image", ROWS),
    (EDITS, "image", [text(of_scans(5000))], "invalid_image", ROWS | RESIZED),
    # nothing transparent
    (EDITS, "image", [text(encode(np.dstack((IMAGE, KNOWN))))], "invalid_mask", {}),
    (EDITS, "n", [1000, 10**4300 - 1], INVALID, ROWS | {"image": [GIVEN] * 3}),
    (EDITS, "mask", [None], "missing_parameter", {}),
    (EDITS, "mask", [LOW], "wrong_size", {}),
    (EDITS, "mask", [CUT], "invalid_image", {}),
    (EDITS, "mask", [text(encode(BETWEEN)), ALL], "invalid_mask", {}),
    (EDITS, "keep_rows", [3], INVALID, {"mask": MASK}),
    (EDITS, "keep_rows", [7], INVALID, {}),
    (EDITS, "keep_row", [3], UNKNOWN, {}),
    (EDITS, "per_pixel", [True], UNKNOWN, ROWS),
    (LIKELIHOODS, "particles", [16], INVALID, {}),
    (LIKELIHOODS, "particles", [64], INVALID, {"mask": MASK}),  # more than slots
    (LIKELIHOODS, "repeats", [1, "some", MAX_IMAGES + 1], INVALID, {"mask": MASK}),
    (LIKELIHOODS, "per_pixel", [True], INVALID, {"mask": MASK}),
    (LIKELIHOODS, "keep_rows", [3], INVALID, {"mask": MASK}),
    (LIKELIHOODS, "keep_rows", [0], "invalid_mask", {}),
    (LIKELIHOODS, "keep_rows", [7], INVALID, {}),
    (LIKELIHOODS, "mask", [NOTHING, ALL], "invalid_mask", {}),
    (LIKELIHOODS, "temperature", [0.9], UNKNOWN, {"mask": MASK}),
    (LIKELIHOODS, "image", [[""] * (MAX_IMAGES + 1)], INVALID, {}),
    (CLASSIFICATIONS, "image", [None], "missing_parameter", {}),
    (CLASSIFICATIONS, "image", [[]], INVALID, {}),
    (CLASSIFICATIONS, "image", [text(encode(noise(5, 7)))], "wrong_size", {"size_policy": "exact"}),
    (CLASSIFICATIONS, "class", ["star"], UNKNOWN, {}),
    (CLASSIFICATIONS, "mask", [MASK], UNKNOWN, {}),
    (CODES, "image", [[], [""] * 2001], INVALID, {}),
    (CODES, "class", ["star"], INVALID, {}),  # of a model without any
    (CODES, "output_format", ["png"], INVALID, {}),
    (CODES, "images_a_code", [0], INVALID, {}),
    (CODES, "keep_rows", [3], UNKNOWN, {}),
    (DECODINGS, "code", [[], 7, [""] * 2001], INVALID, {}),
    (DECODINGS, "code", ["seven!"], "invalid_base64", {}),
    (DECODINGS, "images", ["3,7", "3-2", "all", [1, "0-2"], "1," * 2000], INVALID, {}),
    (DECODINGS, "seed", [4], UNKNOWN, {}),
    (DECODINGS, "partial_images", [2], INVALID, {}),
    (STEPS, "layer", [1], INVALID, {}),
    (STEPS, "head", [2], INVALID, {}),
    (STEPS, "first", [35], INVALID, {}),
    (STEPS, "steps", [65], INVALID, {}),
    (STEPS, "image", [[GIVEN] * 2], INVALID, {}),
]


@pytest.fixture(scope="module")
def given(server: Server) -> dict[str, dict[str, Any]]:
    """What each route needs besides; a file of seven images for that of codes."""
    with server.client() as client:
        file = client.post(CODES, json={"image": [GIVEN] * 7, "output_format": "file"}).content
    picture = {"image": GIVEN}
    step = {**picture, "layer": 0, "head": 0, "first": 0, "steps": 1}
    pictures = dict.fromkeys((EDITS, LIKELIHOODS, CLASSIFICATIONS, CODES), picture)
    return {**pictures, GENERATIONS: {}, DECODINGS: {"code": text(file)}, STEPS: step}


@pytest.mark.parametrize(
    "case", WRONG, ids=lambda case: f"{case[0].rpartition('/')[2]} {case[1]} {case[3]}"
)
def test_the_wrong_field_is_named(
    client: httpx.Client, shapes_client: httpx.Client, given: dict[str, dict[str, Any]], case: tuple
) -> None:
    route, field, values, code, beside = case
    sender = shapes_client if route in (LIKELIHOODS, CLASSIFICATIONS) else client
    for value in values:
        fields = {**given[route], **beside, field: value}
        # NaN too, unlike httpx
        content = json.dumps({name: one for name, one in fields.items() if one is not None})
        response = sender.post(route, content=content, headers={"content-type": "application/json"})
        assert_refused(response, 400, field, code)


def with_chunk(kind: bytes, data: bytes) -> bytes:
    """The picture with another chunk behind its header."""
    return FILE[:33] + chunk(kind, data) + FILE[33:]


def claiming(size: int) -> bytes:
    """A small PNG whose header claims that it is large."""
    return SIGNATURE + header(size, size) + pixels() + END


def animated(kind: str) -> bytes:
    out = io.BytesIO()
    first, second = (Image.fromarray(noise(7, 5, seed=seed)) for seed in range(2))
    first.save(out, kind, save_all=True, append_images=[second])
    return out.getvalue()


BOMB = zlib.compress(bytes(10_000_000))
PICTURES = {  # the code: unsupported pictures
    "invalid_image": [
        b"",
        b"a picture of a seven",
        FILE[:8],
        encode(IMAGE, "GIF"),
        animated("PNG"),
        animated("WEBP"),
        claiming(60_000),
        *(with_chunk(kind, b"a\0\0" + BOMB) for kind in (b"zTXt", b"iCCP")),  # which unpack to much
    ],
    "wrong_size": [
        *(encode(np.zeros(size, np.uint8)) for size in ((28, 28), (5, 7), (4000, 4000))),
        claiming(9000),
    ],
}


@pytest.mark.parametrize("code", PICTURES)
def test_an_unsupported_picture_is_refused(client: httpx.Client, code: str) -> None:
    for data in PICTURES[code]:
        assert_refused(client.post(LIKELIHOODS, json={"image": text(data)}), 400, "image", code)


def test_pixels_behind_the_last_are_not_decompressed_and_a_large_comment_is_no_pixel(
    client: httpx.Client,
) -> None:
    """A bomb in the picture itself, of which only the rows are decompressed; a
    file that is decoded in a thread.
    """
    packed = chunk(b"IDAT", zlib.compress((b"\0" + b"\1" * 5) * 7 + bytes(10_000_000)))
    assert (
        client.post(LIKELIHOODS, json={"image": text(FILE[:33] + packed + FILE[-12:])}).status_code
        == 200
    )
    data = with_chunk(b"tEXt", b"a\0" + b"b" * 200_000)
    commented, plain = (
        client.post(LIKELIHOODS, json={"image": text(one)}).json()["data"] for one in (data, FILE)
    )
    assert commented == plain


UPLOAD = ("upload", FILE, "application/octet-stream")
FORMS = {  # label: files, text fields, the parameter that is named, the code
    "no image": ({"mask": UPLOAD}, {}, "image", "missing_parameter"),
    "text where a file belongs": (
        {"image": (None, b"seven.png")},
        {"keep_rows": "3"},
        "image",
        "invalid_image",
    ),
    "a file where text belongs": (
        {"image": UPLOAD, "keep_rows": UPLOAD},
        {},
        "keep_rows",
        "invalid_value",
    ),
    "no images to paint": ({"image": UPLOAD}, {"n": "0", "keep_rows": "3"}, "n", "invalid_value"),
    "rows that are no number": (
        {"image": UPLOAD},
        {"keep_rows": "half"},
        "keep_rows",
        "invalid_value",
    ),
    "a field twice": ({"image": UPLOAD}, {"n": ["1", "2"], "keep_rows": "3"}, "n", "invalid_value"),
    "a misspelt field": (
        {"image": UPLOAD},
        {"seeds[]": "1", "keep_rows": "3"},
        "seeds",
        "unknown_parameter",
    ),
}


UNREAD = {  # fields of a form that cannot be read, and the sentence
    "temperature": ("0,5", "temperature must be a number."),
    "stream": ("2", "stream must be true or false."),
}


@pytest.mark.parametrize("field", UNREAD)
def test_a_text_of_a_form_that_is_no_number_gets_our_sentence(
    client: httpx.Client, field: str
) -> None:
    value, sentence = UNREAD[field]
    answer = client.post(EDITS, files={"image": UPLOAD}, data={"keep_rows": "3", field: value})
    assert answer.json()["error"]["message"] == sentence
    empty = client.post(EDITS, json={"image": [], "keep_rows": 3})
    assert empty.json()["error"]["message"] == "image must be a list of at least 1."


@pytest.mark.parametrize("label", FORMS)
def test_the_invalid_part_is_named(client: httpx.Client, label: str) -> None:
    files, fields, param, code = FORMS[label]
    assert_refused(client.post(EDITS, files=files, data=fields), 400, param, code)


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
def test_a_body_that_is_no_object_is_refused(client: httpx.Client, url: str, code: str) -> None:
    for content in BODIES[code]:
        assert_refused(
            client.post(url, content=content, headers={"content-type": "application/json"}),
            400,
            None,
            code,
        )


@pytest.mark.parametrize("url", [GENERATIONS, EDITS, LIKELIHOODS])
def test_a_body_that_is_too_large_is_refused_with_a_length_and_in_chunks(
    colour_client: httpx.Client, url: str
) -> None:
    for content in (
        b'{"user": "' + b"x" * 100_000 + b'"}',
        iter((b'{"user": "', *[b"x" * 1000] * 200, b'"}')),
    ):
        response = colour_client.post(
            url, content=content, headers={"content-type": "application/json"}
        )
        assert_refused(response, 413, None, "body_too_large")


@pytest.mark.parametrize("model", ["mnist", "", "../grey", "GREY", "grey "])
def test_an_unknown_model_is_not_found(client: httpx.Client, model: str) -> None:
    assert_refused(client.post(GENERATIONS, json={"model": model}), 404, "model", "model_not_found")


def test_the_limits_of_numbers_are_those_of_the_command_line(client: httpx.Client) -> None:
    message = client.post(GENERATIONS, json={"temperature": -1e-7}).json()["error"]["message"]
    assert message == "temperature must be from 0 to 2, not -1e-07."
