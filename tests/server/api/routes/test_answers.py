"""The formats of a response: PNG or WebP in JSON, and by Accept an image file, a contact sheet or an array."""

import base64
import io

import httpx
import numpy as np
import pytest

from tests.support.pictures import decode, painted

URL = "/v1/images/generations"


def accepted(client: httpx.Client, accept: str, **fields: object) -> httpx.Response:
    return client.post(URL, json={"seed": 4, **fields}, headers={"accept": accept})


@pytest.fixture
def images(client: httpx.Client) -> np.ndarray:
    """The five images [5, 7, 5] of seed 4."""
    return painted(client.post(URL, json={"seed": 4, "n": 5}).json())


@pytest.fixture
def colours(colour_client: httpx.Client) -> np.ndarray:
    """The three images [3, 3, 4, 3] of seed 4."""
    return painted(colour_client.post(URL, json={"seed": 4, "n": 3}).json())


@pytest.mark.parametrize(("output_format", "magic"), [("png", b"\x89PNG"), ("webp", b"RIFF")])
def test_the_output_format_is_respected(client: httpx.Client, output_format: str, magic: bytes) -> None:
    answer = client.post(URL, json={"output_format": output_format}).json()
    assert answer["output_format"] == output_format
    assert base64.b64decode(answer["data"][0]["b64_json"]).startswith(magic)


@pytest.mark.parametrize("kind", ["image/png", "image/webp"])
def test_one_image_is_the_picture_itself(colour_client: httpx.Client, colours: np.ndarray, kind: str) -> None:
    response = accepted(colour_client, kind)
    assert (response.headers["content-type"], response.headers["x-scanline-seed"]) == (kind, "4")
    np.testing.assert_array_equal(decode(response.content), colours[0])


def test_several_images_are_a_contact_sheet_row_by_row(client: httpx.Client, images: np.ndarray) -> None:
    sheet = decode(accepted(client, "image/png", n=5).content)
    padded = np.concatenate((images, np.zeros((1, 7, 5), np.uint8)))
    np.testing.assert_array_equal(sheet, np.block([[*padded[:3]], [*padded[3:]]]))


def test_an_array_has_all_bytes_and_channels_last(
    client: httpx.Client, images: np.ndarray, colour_client: httpx.Client, colours: np.ndarray
) -> None:
    response = accepted(client, "application/x-npy", n=5)
    assert response.headers["content-type"] == "application/x-npy"
    assert response.headers["x-scanline-seed"] == "4"
    np.testing.assert_array_equal(np.load(io.BytesIO(response.content)), images)
    array = np.load(io.BytesIO(accepted(colour_client, "application/x-npy", n=3).content))
    np.testing.assert_array_equal(array, colours)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json, image/png", "application/json"),
        ("text/html", "application/json"),
        ("image/*", "image/png"),
        ("IMAGE/PNG; q=0.9", "image/png"),
        ("image/webp,image/png", "image/webp"),
        ("image/webp;q=0.5, image/png;q=0.8, application/json;q=0", "image/png"),
        ("image/avif,image/webp,image/png,*/*;q=0.8", "image/webp"),
    ],
)
def test_accept_selects_the_media_type(client: httpx.Client, accept: str, kind: str) -> None:
    assert accepted(client, accept).headers["content-type"] == kind


def test_any_image_type_means_the_output_format(client: httpx.Client) -> None:
    assert accepted(client, "image/*", output_format="webp").headers["content-type"] == "image/webp"


def test_an_unsupported_image_type_is_refused(client: httpx.Client) -> None:
    response = accepted(client, "image/jpeg")
    assert response.status_code == 406
    assert response.json()["error"]["message"] == (
        "Accept: image/jpeg is not supported; use image/png, image/webp, image/gif or image/apng."
    )
