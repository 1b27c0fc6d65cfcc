"""POST /v1/images/edits: known bytes are returned unchanged, the others are painted."""

import httpx
import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import encode, noise, painted, text

URL = "/v1/images/edits"
GREYS = noise(2, 7, 5)
COLOUR = noise(3, 4, 3)
HOLE = np.full((7, 5), 255, np.uint8)  # known bytes before, between and after the bytes to paint
HOLE[2:5, 1:3] = 0
COLOUR_HOLE = np.full((3, 4), 255, np.uint8)
COLOUR_HOLE[1, :2] = 0


def edit(client: httpx.Client, **fields: object) -> dict:
    response = client.post(URL, json={"seed": 4, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def alpha(image: np.ndarray, mask: np.ndarray) -> bytes:
    """A file of the image with the mask as its alpha channel."""
    return encode(np.dstack((image, mask)))


@pytest.mark.parametrize("rows", [0, 3, 6])
def test_kept_rows_are_returned_unchanged(client: httpx.Client, rows: int) -> None:
    image = painted(edit(client, image=text(encode(GREYS[0])), keep_rows=rows))[0]
    np.testing.assert_array_equal(image[:rows], GREYS[0, :rows])


def test_known_pixels_are_cleaned_where_the_request_says_so(shapes_client: httpx.Client) -> None:
    noisy = np.full((7, 5), 3, np.uint8)
    noisy[2:4] = 252
    given = {"image": text(encode(noisy)), "keep_rows": 4}
    np.testing.assert_array_equal(painted(edit(shapes_client, **given))[0, :4], noisy[:4])
    kept = painted(edit(shapes_client, **given, clean="auto"))[0, :4]
    np.testing.assert_array_equal(kept, np.where(noisy > 9, 254, 0)[:4])


def test_known_pixels_are_returned_unchanged(client: httpx.Client, colour_client: httpx.Client) -> None:
    image = painted(edit(client, image=text(encode(GREYS[0])), mask=text(encode(HOLE))))[0]
    np.testing.assert_array_equal(image[HOLE == 255], GREYS[0][HOLE == 255])
    image = painted(edit(colour_client, image=text(encode(COLOUR)), mask=text(encode(COLOUR_HOLE))))[0]
    np.testing.assert_array_equal(image[COLOUR_HOLE == 255], COLOUR[COLOUR_HOLE == 255])


def test_completions_equal_those_painted_offline(client: httpx.Client, grey: Transformer) -> None:
    answer = edit(client, image=text(encode(GREYS[0])), mask=text(encode(HOLE)), n=3, temperature=0.9)
    known, mask = GREYS[0].reshape(-1), HOLE.reshape(-1) == 255
    expected = paint(grey, 3, seed=4, temperature=0.9, known=known, mask=mask, particles=16).images
    np.testing.assert_array_equal(painted(answer), expected.reshape(3, 7, 5))


def test_an_edit_without_known_pixels_is_a_generation(client: httpx.Client) -> None:
    generation = client.post("/v1/images/generations", json={"seed": 4, "n": 2}).json()
    assert edit(client, image=text(encode(GREYS[0])), keep_rows=0, n=2)["data"] == generation["data"]


def test_several_images_are_completed_one_after_the_other(client: httpx.Client) -> None:
    images = painted(edit(client, image=[text(encode(image)) for image in GREYS], keep_rows=4, n=3))
    np.testing.assert_array_equal(images[:, :4], GREYS[[0, 0, 0, 1, 1, 1], :4])


def test_a_mask_is_an_alpha_channel_or_a_picture(client: httpx.Client) -> None:
    expected = edit(client, image=text(encode(GREYS[0])), mask=text(encode(HOLE)))["data"]
    assert edit(client, image=text(alpha(GREYS[0], HOLE)))["data"] == expected
    # a mask overrides the alpha of the image, and may itself use its alpha
    assert edit(client, image=text(alpha(GREYS[0], HOLE[::-1])), mask=text(encode(HOLE)))["data"] == expected
    by_alpha = edit(client, image=text(encode(GREYS[0])), mask=text(alpha(noise(7, 5, 3, seed=1), HOLE)))
    assert by_alpha["data"] == expected


def test_a_data_url_equals_base64(client: httpx.Client) -> None:
    file = text(encode(GREYS[0]))
    by_url = edit(client, image=f"data:image/png;base64,{file}", keep_rows=2)
    assert by_url["data"] == edit(client, image=file, keep_rows=2)["data"]


@pytest.mark.parametrize("name", ["image", "image[]"])
def test_a_form_equals_json(client: httpx.Client, name: str) -> None:
    files = [(name, ("upload", encode(image), "application/octet-stream")) for image in GREYS]
    response = client.post(URL, files=files, data={"keep_rows": "2", "n": "2", "seed": "4", "prompt": ""})
    as_json = edit(client, image=[text(encode(image)) for image in GREYS], keep_rows=2, n=2)
    assert response.json()["data"] == as_json["data"]


def test_bits_per_dim_are_those_of_the_whole_image(client: httpx.Client) -> None:
    answer = edit(client, image=text(encode(GREYS[0])), mask=text(encode(HOLE)))
    again = client.post("/v1/images/likelihoods", json={"image": answer["data"][0]["b64_json"]}).json()
    assert again["data"][0]["bits_per_dim"] == pytest.approx(answer["data"][0]["bits_per_dim"], rel=1e-5)


def test_usage_separates_known_and_painted_bytes(colour_client: httpx.Client) -> None:
    answer = edit(colour_client, image=[text(encode(COLOUR))] * 2, mask=text(encode(COLOUR_HOLE)), n=3)
    assert answer["usage"] == {
        "input_tokens": 180,
        "input_tokens_details": {"text_tokens": 0, "image_tokens": 180},
        "output_tokens": 36,
        "total_tokens": 216,
    }
