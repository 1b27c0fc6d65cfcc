"""Images of another size than the model's: pixels are repeated, in every kind of answer, and the answer says so."""

import io

import httpx
import numpy as np
import pytest

from tests.support.pictures import decode, painted
from tests.support.server.error_answers import assert_refused
from tests.support.server.sse_reader import images, post_for_events

URL = "/v1/images/generations"
LARGE = {"n": 4, "seed": 7, "size": "15x14", "size_policy": "resize"}


@pytest.fixture
def expected(client: httpx.Client) -> np.ndarray:
    """The same images [4, 14, 15], in which each pixel is repeated."""
    own = painted(client.post(URL, json={"n": 4, "seed": 7}).json())
    return own.repeat(2, axis=1).repeat(3, axis=2)


def test_json_and_arrays(client: httpx.Client, expected: np.ndarray) -> None:
    answer = client.post(URL, json=LARGE).json()
    assert (answer["size"], answer["resized_from"]) == ("15x14", "5x7")
    np.testing.assert_array_equal(painted(answer), expected)
    array = client.post(URL, json=LARGE, headers={"accept": "application/x-npy"})
    assert array.headers["x-scanline-resized-from"] == "5x7"
    np.testing.assert_array_equal(np.load(io.BytesIO(array.content)), expected)


def test_pictures(client: httpx.Client, expected: np.ndarray) -> None:
    sheet = decode(client.post(URL, json=LARGE, headers={"accept": "image/png"}).content)
    np.testing.assert_array_equal(sheet, np.vstack((np.hstack(expected[:2]), np.hstack(expected[2:]))))


def test_events(client: httpx.Client, expected: np.ndarray) -> None:
    events = post_for_events(client, URL, **LARGE, partial_images=1)
    assert {(event["size"], event["resized_from"]) for event in events} == {("15x14", "5x7")}
    np.testing.assert_array_equal(images(events), expected)


def test_a_server_that_resizes_still_refuses_what_is_no_size(shapes_client: httpx.Client) -> None:
    assert_refused(
        shapes_client.post(URL, json={"size": "15x14", "size_policy": "exact"}), 400, "size", "invalid_value"
    )
    assert_refused(shapes_client.post(URL, json={"size": "large"}), 400, "size", "invalid_value")
