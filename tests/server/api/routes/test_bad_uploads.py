"""Invalid pictures, masks and forms: each a 4xx error of the one shape."""

import io
import zlib

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.hostile_pictures import END, SIGNATURE, chunk, header, of_scans, pixels
from tests.support.server.json_requests import CLASSIFICATIONS, EDITS, IMAGE, LIKELIHOODS

FILE = encode(IMAGE)
MASK = np.full((7, 5), 255, np.uint8)
MASK[3:] = 0
BETWEEN = MASK.copy()  # a value between black and white
BETWEEN[0, 0] = 128
BOMB = zlib.compress(bytes(10_000_000))


def with_chunk(kind: bytes, data: bytes) -> bytes:
    """The picture with another chunk behind its header."""
    return FILE[:33] + chunk(kind, data) + FILE[33:]


def claiming(size: int) -> bytes:
    """A small PNG whose header claims that it is large."""
    return SIGNATURE + header(size, size) + pixels() + END


def animated(kind: str) -> bytes:
    """An animation of two pictures."""
    out = io.BytesIO()
    frames = [Image.fromarray(noise(7, 5, seed=seed)) for seed in range(2)]
    frames[0].save(out, kind, save_all=True, append_images=frames[1:])
    return out.getvalue()


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

GIVEN = {"image": text(FILE)}
RESIZED = {"keep_rows": 3, "size_policy": "resize"}
FIELDS = {  # label: fields of an edit in JSON, the parameter that is named, the code
    "no image": ({"keep_rows": 3}, "image", "missing_parameter"),
    "an empty list of images": ({"image": [], "keep_rows": 3}, "image", "invalid_value"),
    "an image that is a number": ({"image": 7, "keep_rows": 3}, "image", "invalid_value"),
    "an image that is not base64": ({"image": "seven!", "keep_rows": 3}, "image", "invalid_base64"),
    "a URL": ({"image": "https://localhost/seven.png", "keep_rows": 3}, "image", "invalid_base64"),
    "one bad image of two": ({"image": [text(FILE), text(FILE[:50])], "keep_rows": 3}, "image", "invalid_image"),
    "too many images": ({"image": [text(FILE)] * 3, "n": 1000, "keep_rows": 3}, "n", "invalid_value"),
    "images of very many digits": ({"image": [text(FILE)] * 3, "n": 10**4300 - 1}, "n", "invalid_value"),
    "nothing that decides": (GIVEN, "mask", "missing_parameter"),
    "two that decide": ({**GIVEN, "keep_rows": 3, "mask": text(encode(MASK))}, "keep_rows", "invalid_value"),
    "all rows kept": ({**GIVEN, "keep_rows": 7}, "keep_rows", "invalid_value"),
    "a mask of another size": ({**GIVEN, "mask": text(encode(MASK[:6]))}, "mask", "wrong_size"),
    "a mask that is no picture": ({**GIVEN, "mask": text(FILE[:50])}, "mask", "invalid_image"),
    "a mask with values between": ({**GIVEN, "mask": text(encode(BETWEEN))}, "mask", "invalid_mask"),
    "nothing to paint": ({**GIVEN, "mask": text(encode(MASK | 255))}, "mask", "invalid_mask"),
    "nothing transparent": ({"image": text(encode(np.dstack((IMAGE, MASK | 255))))}, "image", "invalid_mask"),
    "a picture of many scans": (RESIZED | {"image": text(of_scans(5000))}, "image", "invalid_image"),
    "a misspelt field": ({**GIVEN, "keep_row": 3}, "keep_row", "unknown_parameter"),
    "a field of likelihoods": ({**GIVEN, "keep_rows": 3, "per_pixel": True}, "per_pixel", "unknown_parameter"),
}

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


@pytest.mark.parametrize("label", PICTURES)
def test_an_unsupported_picture_is_refused(client: httpx.Client, label: str) -> None:
    data, code = PICTURES[label]
    assert_refused(client.post(LIKELIHOODS, json={"image": text(data)}), 400, "image", code)


@pytest.mark.parametrize("label", FIELDS)
def test_the_invalid_field_is_named(client: httpx.Client, label: str) -> None:
    fields, param, code = FIELDS[label]
    assert_refused(client.post(EDITS, json=fields), 400, param, code)


@pytest.mark.parametrize("label", FORMS)
def test_the_invalid_part_is_named(client: httpx.Client, label: str) -> None:
    files, fields, param, code = FORMS[label]
    assert_refused(client.post(EDITS, files=files, data=fields), 400, param, code)


def test_pixels_behind_the_last_are_not_decompressed(client: httpx.Client) -> None:
    """A bomb in the picture itself: only its rows are decompressed."""
    packed = chunk(b"IDAT", zlib.compress((b"\0" + b"\1" * 5) * 7 + bytes(10_000_000)))
    assert client.post(LIKELIHOODS, json={"image": text(FILE[:33] + packed + FILE[-12:])}).status_code == 200


def test_a_picture_with_a_large_comment_is_accepted(client: httpx.Client) -> None:
    """Large enough to be decoded in a thread."""
    data = with_chunk(b"tEXt", b"a\0" + b"b" * 200_000)
    plain = client.post(LIKELIHOODS, json={"image": text(FILE)}).json()["data"]
    assert client.post(LIKELIHOODS, json={"image": text(data)}).json()["data"] == plain


def test_likelihoods_refuse_too_many_images_and_classifications_a_mask(client: httpx.Client) -> None:
    response = client.post(LIKELIHOODS, json={"image": [""] * 2001})
    assert_refused(response, 400, "image", "invalid_value")
    response = client.post(CLASSIFICATIONS, json={**GIVEN, "mask": text(encode(MASK))})
    assert_refused(response, 400, "mask", "unknown_parameter")
