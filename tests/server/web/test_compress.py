"""Compress, in a real browser: a picture's code paints it again, and
one with a flipped bit does not.
"""

import base64

import httpx
import numpy as np
from playwright.sync_api import expect

from scanline.model.formats.code_file import read
from tests.support.page.visitor import Visitor
from tests.support.pictures import encode, text
from tests.support.server.json_requests import IMAGE, LIKELIHOODS, post

SAME = "The code paints your picture, byte for byte."


def code_of(client: httpx.Client, image: np.ndarray) -> bytes:
    """The code that the API returns, out of its file."""
    answer = post(client, "/v1/images/codes", image=text(encode(image)))
    return read(base64.b64decode(answer["data"][0]["code"])).codes.codes[0]


def type_code(visitor: Visitor, code: str) -> None:
    visitor.fill("#code-text", code)
    visitor.click("#coded-form .primary")


def test_a_code_paints_its_picture_a_flipped_bit_another(visit, server, client):
    visitor = visit(f"{server.url}/#compress", reduced_motion="reduce")
    visitor.expect_text("#coded-status", SAME)  # of an example
    example = visitor.see("#code-text").input_value()
    file = encode(IMAGE)
    visitor.see("#coded-upload").set_input_files(
        {"name": "one.png", "mimeType": "image/png", "buffer": file}
    )
    code = code_of(client, IMAGE)
    visitor.expect_value("#code-text", code.hex())
    visitor.expect_text("#coded-status", SAME)
    assert (visitor.pixels("#coded-painted")[..., 0] == IMAGE).all()
    assert read(visitor.saved("#code-save").read_bytes()).codes.codes == (code,)

    # A bit is flipped: the bytes before it are the same, and it is marked.
    bits = visitor.see("#bits")
    bits.focus()
    for _ in range(20):
        visitor.press("ArrowRight")
    visitor.press("Space")
    visitor.expect_contains("#coded-status", "another picture from row ")
    expect(bits.locator(".flipped")).to_have_attribute("d", "M220 0h10v10h-10z")
    painted = visitor.pixels("#coded-painted")[..., 0]
    assert painted[0, 0] == IMAGE[0, 0]
    assert (painted != IMAGE).any()
    flipped = bytes([*code[:2], code[2] ^ 8, *code[3:]])
    visitor.expect_value("#code-text", flipped.hex())

    # The slider shows the rows that some of the bits paint; a click flips the bit back.
    visitor.fill("#coded-rows", "1")
    assert (visitor.pixels("#coded-painted")[..., 3] > 0).sum(axis=1).tolist() == [
        5,
        0,
        0,
        0,
        0,
        0,
        0,
    ]
    place = f"1 of 7 rows, {bits_of_first_row(client, painted)} of {8 * len(code)} bits"
    visitor.expect_text("#coded-place", place)
    bits.click(position={"x": 225, "y": 5})
    visitor.expect_text("#coded-status", SAME)
    visitor.expect_disabled("#code-restore")

    # A code that is typed, of another length or none of a picture, is
    # painted; what is no code is refused.
    type_code(visitor, code[:3].hex())
    visitor.expect_contains("#coded-status", "another picture")
    visitor.click("text=Base64")
    visitor.expect_value("#code-text", text(code[:3]))
    type_code(visitor, text(code))
    visitor.expect_text("#coded-status", SAME)
    visitor.click("text=Hex")
    type_code(visitor, "xyz")
    visitor.expect_notice("The code must be two hexadecimal digits for each byte.")
    type_code(visitor, example)
    visitor.expect_contains("#coded-status", "another picture")


def bits_of_first_row(client: httpx.Client, image: np.ndarray) -> int:
    answer = post(client, LIKELIHOODS, image=text(encode(image)), per_pixel=True)
    return round(sum(answer["data"][0]["per_pixel"][0]))
