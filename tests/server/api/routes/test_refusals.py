"""Invalid fields, pictures, codes and bodies: each a 4xx error of the one shape, which names what is wrong."""

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
from tests.support.server.routes import CLASSIFICATIONS, CODES, DECODINGS, EDITS, GENERATIONS, LIKELIHOODS, STEPS
from tests.support.server.running_server import Server
from tests.support.shapes import MAX_IMAGES

FILE = encode(IMAGE)
GIVEN, MASK = MASKED["image"], MASKED["mask"]
KNOWN = np.full((7, 5), 255, np.uint8)
BETWEEN = KNOWN.copy()  # a value between black and white
BETWEEN[0, 0], BETWEEN[3:] = 128, 0
ALL, NOTHING = text(encode(KNOWN)), text(encode(KNOWN * 0))
LOW, OTHER_SIZE = text(encode(noise(6, 5))), text(encode(noise(5, 7)))
RESIZED = {"size_policy": "resize"}
Case = tuple[dict[str, Any], str, str]  # fields, the parameter that is named, the code

FIELDS: dict[str, dict[str, Case]] = {  # by route and label; None leaves a field out
    GENERATIONS: {
        "no images": ({"n": 0}, "n", "invalid_value"),
        "too many images": ({"n": 2001}, "n", "invalid_value"),
        "n as text": ({"n": "4"}, "n", "invalid_value"),
        "a negative seed": ({"seed": -2}, "seed", "invalid_value"),
        "a seed of 64 bits": ({"seed": 2**63}, "seed", "invalid_value"),
        "temperature 0": ({"temperature": 0}, "temperature", "invalid_value"),
        "temperature 3": ({"temperature": 3}, "temperature", "invalid_value"),
        "temperature NaN": ({"temperature": float("nan")}, "temperature", "invalid_value"),
        "guidance of a model without classes": ({"guidance": 2}, "guidance", "guidance_not_supported"),
        "a misspelt field": ({"temprature": 0.9}, "temprature", "unknown_parameter"),
        "a prompt": ({"prompt": "a cat"}, "prompt", "prompt_not_supported"),
        "another size": ({"size": "28x28"}, "size", "invalid_value"),
        "a size without numbers": ({"size": "large", **RESIZED}, "size", "invalid_value"),
        "a size of no pixels": ({"size": "0x5", **RESIZED}, "size", "invalid_value"),
        "too large a size": ({"size": "2049x5", **RESIZED}, "size", "invalid_value"),
        "too many pixels": ({"size": "2048x2048", "n": 5, **RESIZED}, "size", "invalid_value"),
        "an unknown kind of answer": ({"response_format": "bytes"}, "response_format", "invalid_value"),
        "a lossy format": ({"output_format": "jpeg"}, "output_format", "invalid_value"),
        "partial images without a stream": ({"partial_images": 2}, "partial_images", "invalid_value"),
        "too many partial images": ({"stream": True, "partial_images": 4}, "partial_images", "invalid_value"),
        "a background": ({"background": "transparent"}, "background", "unsupported_parameter"),
        "a field of edits": ({"keep_rows": 4}, "keep_rows", "unknown_parameter"),
    },
    EDITS: {
        "no image": ({"image": None, "keep_rows": 3}, "image", "missing_parameter"),
        "an empty list of images": ({"image": [], "keep_rows": 3}, "image", "invalid_value"),
        "an image that is a number": ({"image": 7, "keep_rows": 3}, "image", "invalid_value"),
        "an image that is not base64": ({"image": "seven!", "keep_rows": 3}, "image", "invalid_base64"),
        "a URL": ({"image": "https://localhost/seven.png", "keep_rows": 3}, "image", "invalid_base64"),
        "one bad image of two": ({"image": [GIVEN, text(FILE[:50])], "keep_rows": 3}, "image", "invalid_image"),
        "too many images": ({"image": [GIVEN] * 3, "n": 1000, "keep_rows": 3}, "n", "invalid_value"),
        "images of very many digits": ({"image": [GIVEN] * 3, "n": 10**4300 - 1}, "n", "invalid_value"),
        "nothing that decides": ({}, "mask", "missing_parameter"),
        "two that decide": ({"keep_rows": 3, "mask": MASK}, "keep_rows", "invalid_value"),
        "all rows kept": ({"keep_rows": 7}, "keep_rows", "invalid_value"),
        "a mask of another size": ({"mask": LOW}, "mask", "wrong_size"),
        "a mask that is no picture": ({"mask": text(FILE[:50])}, "mask", "invalid_image"),
        "a mask with values between": ({"mask": text(encode(BETWEEN))}, "mask", "invalid_mask"),
        "nothing to paint": ({"mask": ALL}, "mask", "invalid_mask"),
        "nothing transparent": ({"image": text(encode(np.dstack((IMAGE, KNOWN))))}, "image", "invalid_mask"),
        "a picture of many scans": (
            {"keep_rows": 3, "image": text(of_scans(5000)), **RESIZED},
            *("image", "invalid_image"),
        ),
        "a misspelt field": ({"keep_row": 3}, "keep_row", "unknown_parameter"),
        "a field of likelihoods": ({"keep_rows": 3, "per_pixel": True}, "per_pixel", "unknown_parameter"),
    },
    LIKELIHOODS: {
        "particles without a mask": ({"particles": 16}, "particles", "invalid_value"),
        "more particles than slots": ({"mask": MASK, "particles": 64}, "particles", "invalid_value"),
        "a single repeat": ({"mask": MASK, "repeats": 1}, "repeats", "invalid_value"),
        "repeats as text": ({"mask": MASK, "repeats": "some"}, "repeats", "invalid_value"),
        "more repeats than images": ({"keep_rows": 3, "repeats": MAX_IMAGES + 1}, "repeats", "invalid_value"),
        "bits of every byte": ({"mask": MASK, "per_pixel": True}, "per_pixel", "invalid_value"),
        "two masks": ({"mask": MASK, "keep_rows": 3}, "keep_rows", "invalid_value"),
        "nothing known": ({"keep_rows": 0}, "keep_rows", "invalid_mask"),
        "a mask of nothing known": ({"mask": NOTHING}, "mask", "invalid_mask"),
        "nothing hidden": ({"mask": ALL}, "mask", "invalid_mask"),
        "all rows": ({"keep_rows": 7}, "keep_rows", "invalid_value"),
        "a temperature": ({"mask": MASK, "temperature": 0.9}, "temperature", "unknown_parameter"),
        "too many images": ({"image": [""] * (MAX_IMAGES + 1)}, "image", "invalid_value"),
    },
    CLASSIFICATIONS: {
        "no image": ({"image": None}, "image", "missing_parameter"),
        "an empty list": ({"image": []}, "image", "invalid_value"),
        "another size": ({"image": OTHER_SIZE, "size_policy": "exact"}, "image", "wrong_size"),
        "a class": ({"class": "star"}, "class", "unknown_parameter"),
        "a mask": ({"mask": MASK}, "mask", "unknown_parameter"),
    },
    CODES: {
        "no image": ({"image": []}, "image", "invalid_value"),
        "a class of a model without any": ({"class": "star"}, "class", "invalid_value"),
        "another form": ({"output_format": "png"}, "output_format", "invalid_value"),
        "no images to a code": ({"images_a_code": 0}, "images_a_code", "invalid_value"),
        "a field of edits": ({"keep_rows": 3}, "keep_rows", "unknown_parameter"),
        "too many images": ({"image": [""] * 2001}, "image", "invalid_value"),
    },
    DECODINGS: {
        "no code": ({"code": []}, "code", "invalid_value"),
        "a code that is a number": ({"code": 7}, "code", "invalid_value"),
        "a code that is not base64": ({"code": "seven!"}, "code", "invalid_base64"),
        "too many codes": ({"code": [""] * 2001}, "code", "invalid_value"),
        "an image that is not there": ({"images": "3,7"}, "images", "invalid_value"),
        "a range backwards": ({"images": "3-2"}, "images", "invalid_value"),
        "words": ({"images": "all"}, "images", "invalid_value"),
        "an image twice": ({"images": [1, "0-2"]}, "images", "invalid_value"),
        "many numbers": ({"images": "1," * 2000}, "images", "invalid_value"),
        "a seed": ({"seed": 4}, "seed", "unknown_parameter"),
        "partial images without a stream": ({"partial_images": 2}, "partial_images", "invalid_value"),
    },
    STEPS: {
        "a layer": ({"layer": 1}, "layer", "invalid_value"),
        "a head": ({"head": 2}, "head", "invalid_value"),
        "a step": ({"first": 35}, "first", "invalid_value"),
        "too many steps": ({"steps": 65}, "steps", "invalid_value"),
        "two pictures": ({"image": [GIVEN] * 2}, "image", "invalid_value"),
    },
}


@pytest.fixture(scope="module")
def given(server: Server) -> dict[str, dict[str, Any]]:
    """What each route needs besides; a file of seven images for that of codes."""
    with server.client() as client:
        file = client.post(CODES, json={"image": [GIVEN] * 7, "output_format": "file"}).content
    picture = {"image": GIVEN}
    step = {**picture, "layer": 0, "head": 0, "first": 0, "steps": 1}
    return {**dict.fromkeys(FIELDS, picture), GENERATIONS: {}, DECODINGS: {"code": text(file)}, STEPS: step}


@pytest.mark.parametrize(("route", "label"), [(route, label) for route in FIELDS for label in FIELDS[route]])
def test_the_invalid_field_is_named(
    client: httpx.Client, shapes_client: httpx.Client, given: dict[str, dict[str, Any]], route: str, label: str
) -> None:
    fields, param, code = FIELDS[route][label]
    sender = shapes_client if route in (LIKELIHOODS, CLASSIFICATIONS) else client
    sent = {name: value for name, value in {**given[route], **fields}.items() if value is not None}
    content = json.dumps(sent)  # which writes NaN, unlike httpx
    response = sender.post(route, content=content, headers={"content-type": "application/json"})
    assert_refused(response, 400, param, code)


def with_chunk(kind: bytes, data: bytes) -> bytes:
    """The picture with another chunk behind its header."""
    return FILE[:33] + chunk(kind, data) + FILE[33:]


def claiming(size: int) -> bytes:
    """A small PNG whose header claims that it is large."""
    return SIGNATURE + header(size, size) + pixels() + END


def animated(kind: str) -> bytes:
    """An animation of two pictures."""
    out = io.BytesIO()
    first, second = (Image.fromarray(noise(7, 5, seed=seed)) for seed in range(2))
    first.save(out, kind, save_all=True, append_images=[second])
    return out.getvalue()


BOMB = zlib.compress(bytes(10_000_000))
PICTURES = {  # label: an unsupported picture, the code
    "nothing": (b"", "invalid_image"),
    "text": (b"a picture of a seven", "invalid_image"),
    "a PNG's first bytes": (FILE[:8], "invalid_image"),
    "a GIF": (encode(IMAGE, "GIF"), "invalid_image"),
    "another size": (encode(noise(28, 28)), "wrong_size"),
    "height for width": (encode(noise(5, 7)), "wrong_size"),
    "a large picture": (encode(np.zeros((4000, 4000), np.uint8)), "wrong_size"),
    "a picture that says it is large": (claiming(9000), "wrong_size"),
    "a picture that says it is vast": (claiming(60_000), "invalid_image"),
    "a remark that unpacks to much": (with_chunk(b"zTXt", b"a\0\0" + BOMB), "invalid_image"),
    "a colour profile that unpacks to much": (with_chunk(b"iCCP", b"a\0\0" + BOMB), "invalid_image"),
    "a moving PNG": (animated("PNG"), "invalid_image"),
    "a moving WebP": (animated("WEBP"), "invalid_image"),
}


@pytest.mark.parametrize("label", PICTURES)
def test_an_unsupported_picture_is_refused(client: httpx.Client, label: str) -> None:
    data, code = PICTURES[label]
    assert_refused(client.post(LIKELIHOODS, json={"image": text(data)}), 400, "image", code)


def test_pixels_behind_the_last_are_not_decompressed_and_a_large_comment_is_no_pixel(client: httpx.Client) -> None:
    """A bomb in the picture itself, of which only the rows are decompressed; a file that is decoded in a thread."""
    packed = chunk(b"IDAT", zlib.compress((b"\0" + b"\1" * 5) * 7 + bytes(10_000_000)))
    assert client.post(LIKELIHOODS, json={"image": text(FILE[:33] + packed + FILE[-12:])}).status_code == 200
    data = with_chunk(b"tEXt", b"a\0" + b"b" * 200_000)
    commented, plain = (client.post(LIKELIHOODS, json={"image": text(one)}).json()["data"] for one in (data, FILE))
    assert commented == plain


UPLOAD = ("upload", FILE, "application/octet-stream")
FORMS = {  # label: files, text fields, the parameter that is named, the code
    "no image": ({"mask": UPLOAD}, {}, "image", "missing_parameter"),
    "text where a file belongs": ({"mask": UPLOAD}, {"image": "seven.png"}, "image", "invalid_value"),
    "a file where text belongs": ({"image": UPLOAD, "keep_rows": UPLOAD}, {}, "keep_rows", "invalid_value"),
    "no images to paint": ({"image": UPLOAD}, {"n": "0", "keep_rows": "3"}, "n", "invalid_value"),
    "rows that are no number": ({"image": UPLOAD}, {"keep_rows": "half"}, "keep_rows", "invalid_value"),
    "a field twice": ({"image": UPLOAD}, {"n": ["1", "2"], "keep_rows": "3"}, "n", "invalid_value"),
    "a misspelt field": ({"image": UPLOAD}, {"seeds[]": "1", "keep_rows": "3"}, "seeds", "unknown_parameter"),
}


@pytest.mark.parametrize("label", FORMS)
def test_the_invalid_part_is_named(client: httpx.Client, label: str) -> None:
    files, fields, param, code = FORMS[label]
    assert_refused(client.post(EDITS, files=files, data=fields), 400, param, code)


BODIES = {  # label: a body that is not a JSON object, the code
    "nothing": (b"", "invalid_json"),
    "not JSON": (b"n=4&seed=7", "invalid_json"),
    "a list": (b'[{"n": 4}]', "invalid_body"),
    "text": (b'"n"', "invalid_body"),
    "a key that is no text": (b'{"\\ud800": 1}', "invalid_json"),
    "not UTF-8": (b'{"n": "\xff"}', "invalid_json"),
    "nested too deep": (b"[" * 1000 + b"]" * 1000, "invalid_json"),
    "too many brackets": (b"[" * 100_000, "json_too_complex"),
    "too many fields": (b"{" + b'"a":1,' * 100_000 + b'"a":1}', "json_too_complex"),
    "too many escapes": (b'{"user":"' + b"\\/" * 100_000 + b'"}', "json_too_complex"),
    "a number without end": (b'{"n": ' + b"9" * 10_000 + b"}", "invalid_json"),
}


@pytest.mark.parametrize("label", BODIES)
def test_a_body_that_is_no_object_is_refused(client: httpx.Client, label: str) -> None:
    content, code = BODIES[label]
    for url in (GENERATIONS, EDITS, LIKELIHOODS):
        response = client.post(url, content=content, headers={"content-type": "application/json"})
        assert_refused(response, 400, None, code)


@pytest.mark.parametrize("url", [GENERATIONS, EDITS, LIKELIHOODS])
def test_a_body_that_is_too_large_is_refused_with_a_length_and_in_chunks(colour_client: httpx.Client, url: str) -> None:
    for content in (b'{"user": "' + b"x" * 100_000 + b'"}', iter((b'{"user": "', *[b"x" * 1000] * 200, b'"}'))):
        response = colour_client.post(url, content=content, headers={"content-type": "application/json"})
        assert_refused(response, 413, None, "body_too_large")


@pytest.mark.parametrize("model", ["mnist", "", "../grey", "GREY", "grey "])
def test_an_unknown_model_is_not_found(client: httpx.Client, model: str) -> None:
    assert_refused(client.post(GENERATIONS, json={"model": model}), 404, "model", "model_not_found")


def test_the_limits_of_numbers_are_those_of_the_command_line(client: httpx.Client) -> None:
    message = client.post(GENERATIONS, json={"temperature": 1e-7}).json()["error"]["message"]
    assert message == "temperature must be from 0.000001 to 2, not 1e-07."
