"""POST /v1/images/edits: known bytes are returned unchanged, the others are painted."""

import httpx
import numpy as np

from tests.support.pictures import encode, noise, painted, text
from tests.support.server.json_requests import CLEAN, EDITS, GENERATIONS, HOLE, IMAGE, MASKED, NOISY, post

FILE = MASKED["image"]
COLOUR = noise(3, 4, 3)
COLOUR_HOLE = np.full((3, 4), 255, np.uint8)
COLOUR_HOLE[1, :2] = 0


def edit(client: httpx.Client, **fields: object) -> dict:
    return post(client, EDITS, **{"seed": 4, **fields})


def alpha(image: np.ndarray, mask: np.ndarray) -> str:
    """A file of the image with the mask as its alpha channel, in base64."""
    return text(encode(np.dstack((image, mask))))


def test_known_pixels_are_cleaned_where_the_request_says_so(shapes_client: httpx.Client) -> None:
    given = {"image": text(encode(NOISY)), "keep_rows": 4}
    for clean, kept in (({}, NOISY), ({"clean": "auto"}, CLEAN)):
        np.testing.assert_array_equal(painted(edit(shapes_client, **given, **clean))[0, :4], kept[:4])


def test_an_edit_without_known_pixels_is_a_generation(client: httpx.Client) -> None:
    assert edit(client, image=FILE, keep_rows=0, n=2)["data"] == post(client, GENERATIONS, seed=4, n=2)["data"]


def test_several_images_are_completed_one_after_the_other(client: httpx.Client) -> None:
    greys = noise(2, 7, 5)
    images = painted(edit(client, image=[text(encode(image)) for image in greys], keep_rows=4, n=3))
    np.testing.assert_array_equal(images[:, :4], greys[[0, 0, 0, 1, 1, 1], :4])


def test_a_mask_is_an_alpha_channel_or_a_picture(client: httpx.Client) -> None:
    expected = edit(client, **MASKED)["data"]
    assert edit(client, image=alpha(IMAGE, HOLE))["data"] == expected
    # a mask overrides the alpha of the image, and may itself use its alpha
    assert edit(client, image=alpha(IMAGE, HOLE[::-1]), mask=MASKED["mask"])["data"] == expected
    assert edit(client, image=FILE, mask=alpha(noise(7, 5, 3, seed=1), HOLE))["data"] == expected
    # each of several images has its own
    rows = np.where(np.arange(35).reshape(7, 5) < 15, 255, 0).astype(np.uint8)
    several = edit(client, image=[alpha(IMAGE, HOLE), alpha(IMAGE, rows)])
    assert several["data"][0] == expected[0]
    assert several["data"][1]["effective_particles"] == 1.0 < expected[0]["effective_particles"]
    np.testing.assert_array_equal(painted(several)[1][rows == 255], IMAGE[rows == 255])


def test_known_pixels_of_colour_are_unchanged_and_usage_separates_known_and_painted_bytes(
    colour_client: httpx.Client,
) -> None:
    answer = edit(colour_client, image=[text(encode(COLOUR))] * 2, mask=text(encode(COLOUR_HOLE)), n=3)
    np.testing.assert_array_equal(painted(answer)[:, COLOUR_HOLE == 255], np.stack([COLOUR[COLOUR_HOLE == 255]] * 6))
    assert answer["usage"] == {
        "input_tokens": 180,
        "input_tokens_details": {"text_tokens": 0, "image_tokens": 180},
        "output_tokens": 36,
        "total_tokens": 216,
    }
