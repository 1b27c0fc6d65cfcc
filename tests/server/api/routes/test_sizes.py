"""Images and uploads of another size than the model's: they are resized, and every kind of answer says so."""

import io

import httpx
import numpy as np
import pytest

from scanline.model.images.pictures import npy_chunks, resized
from tests.support.pictures import decode, encode, painted
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import EDITS, GENERATIONS, IMAGE, post
from tests.support.server.sse_reader import images, post_for_events

LARGE = {"n": 4, "seed": 7, "size": "15x14", "size_policy": "resize"}


def test_images_of_another_size_in_every_kind_of_answer(client: httpx.Client) -> None:
    expected = painted(post(client, GENERATIONS, n=4, seed=7)).repeat(2, axis=1).repeat(3, axis=2)
    answer = post(client, GENERATIONS, **LARGE)
    assert (answer["size"], answer["resized_from"]) == ("15x14", "5x7")
    np.testing.assert_array_equal(painted(answer), expected)
    array = client.post(GENERATIONS, json=LARGE, headers={"accept": "application/x-npy"})
    assert array.headers["x-scanline-resized-from"] == "5x7"
    np.testing.assert_array_equal(np.load(io.BytesIO(array.content)), expected)
    sheet = decode(client.post(GENERATIONS, json=LARGE, headers={"accept": "image/png"}).content)
    np.testing.assert_array_equal(sheet, np.block([[*expected[:2]], [*expected[2:]]]))
    events = post_for_events(client, GENERATIONS, **LARGE, partial_images=1)
    assert {(event["size"], event["resized_from"]) for event in events} == {("15x14", "5x7")}
    np.testing.assert_array_equal(images(events), expected)


def test_no_more_than_one_image_of_an_array_is_in_memory_in_the_size_asked_for() -> None:
    done: list[np.ndarray] = []

    def doubled(image: np.ndarray) -> np.ndarray:
        done.append(image)
        return image.repeat(2, axis=0)

    chunks = npy_chunks(np.zeros((5, 7, 5), np.uint8), doubled)
    assert len(next(chunks) + next(chunks)) == 128 + 70
    assert len(done) == 2, "an empty one for the header, and the first image"


def test_a_server_that_resizes_still_refuses_what_is_no_size(shapes_client: httpx.Client) -> None:
    for fields in ({"size": "15x14", "size_policy": "exact"}, {"size": "large"}):
        assert_refused(shapes_client.post(GENERATIONS, json=fields), 400, "size", "invalid_value")


def test_what_a_file_has_no_room_for_or_takes_too_long_is_refused_before_painting(
    client: httpx.Client, colour_client: httpx.Client
) -> None:
    for n, size, kind in ((81, "2048x100", "webp"), (81, "100x2048", "webp"), (4, "2048x2048", "webp")):
        fields = {"n": n, "size": size, "size_policy": "resize"}
        refused = client.post(GENERATIONS, json=fields, headers={"accept": f"image/{kind}"})
        assert_refused(refused, 400, "size", "invalid_value")
    film = {"n": 1200, "frames": 2, "scale": 16, "size": "300x1", "size_policy": "resize", "output_format": "webp"}
    assert_refused(client.post(GENERATIONS, json=film, headers={"accept": "image/webp"}), 400, "size", "invalid_value")
    one = {"size": "2048x2048", "size_policy": "resize"}
    two = colour_client.post(GENERATIONS, json={"n": 2, **one}, headers={"accept": "image/png"})
    assert_refused(two, 400, "size", "invalid_value")
    assert client.post(GENERATIONS, json=one, headers={"accept": "image/webp"}).status_code == 200


KEPT = np.where(np.arange(35).reshape(7, 5) < 20, 255, 0).astype(np.uint8)
SMALL = encode(np.dstack((IMAGE, IMAGE, IMAGE, KEPT)))
ENLARGED, MASK = encode(resized(IMAGE, (50, 70))), encode(resized(KEPT, (50, 70)))
RESIZE = {"seed": "7", "size_policy": "resize"}


def test_uploads_are_resized_where_that_is_asked_for(client: httpx.Client) -> None:
    expected = client.post(EDITS, data={"seed": "7"}, files={"image": SMALL}).json()
    files = {"image": ENLARGED, "mask": MASK}
    answer = client.post(EDITS, data=RESIZE, files=files).json()
    assert answer["data"] == expected["data"]
    assert answer["uploads_resized_from"] == ["50x70"]
    assert "uploads_resized_from" not in expected
    array = client.post(EDITS, data=RESIZE, files=files, headers={"accept": "application/x-npy"})
    assert array.headers["x-scanline-uploads-resized-from"] == "50x70"
    sent = client.post(EDITS, data=RESIZE | {"stream": "true", "keep_rows": "3"}, files={"image": ENLARGED})
    assert '"uploads_resized_from":["50x70"]' in sent.text.replace('": ', '":')
    refused = client.post(EDITS, data={"seed": "7"}, files=files)
    assert_refused(refused, 400, "mask", "wrong_size")
    other = {"image": ENLARGED, "mask": encode(resized(KEPT, (10, 14)))}
    assert_refused(client.post(EDITS, data=RESIZE, files=other), 400, "mask", "wrong_size")


def test_of_several_pictures_the_refused_one_is_named(client: httpx.Client) -> None:
    for route, data in (("edits", {"keep_rows": "3"}), ("likelihoods", {})):
        files = [("image", SMALL), ("image", ENLARGED)]
        refused = client.post(f"/v1/images/{route}", data=data, files=files)
        assert_refused(refused, 400, "image", "wrong_size")
        assert refused.json()["error"]["message"].startswith("Picture 2 of 2: image is 50x70;")


@pytest.mark.parametrize("route", ["likelihoods", "classifications"])
def test_a_server_that_resizes_scores_pictures_of_any_size(shapes_client: httpx.Client, route: str) -> None:
    url = f"/v1/images/{route}"
    answers = [shapes_client.post(url, files={"image": file}).json() for file in (ENLARGED, encode(IMAGE))]
    assert answers[0].pop("uploads_resized_from") == ["50x70"]
    assert answers[0]["data"] == answers[1]["data"]
    exact = shapes_client.post(url, data={"size_policy": "exact"}, files={"image": ENLARGED})
    assert_refused(exact, 400, "image", "wrong_size")
