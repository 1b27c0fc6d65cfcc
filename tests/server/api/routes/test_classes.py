"""`class` and `prompt` of generations, edits, likelihoods, events and the websocket, at a model that knows classes."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.json_requests import EDITS, FILES, GENERATIONS, IMAGE, LIKELIHOODS, MASKED, post
from tests.support.server.running_server import Server
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected

PICTURE = {"image": MASKED["image"], "keep_rows": 3}
WRONG = {  # label: fields, the parameter that is named, the code
    "an unknown class": ({"class": "cat"}, "class", "invalid_value"),
    "a class that is a number": ({"class": 1}, "class", "invalid_value"),
    "a class beyond all words": ({"class": "x" * 300}, "class", "invalid_value"),
    "our own name of the field": ({"class_": "star"}, "class_", "unknown_parameter"),
    "a prompt without a class": ({"prompt": "a cat"}, "prompt", "prompt_not_supported"),
    "class and prompt that differ": ({"prompt": "a star", "class": "square"}, "class", "invalid_value"),
}


def test_a_class_or_a_prompt_is_that_of_the_library_on_every_route(
    shapes_client: httpx.Client, shapes_model: Model
) -> None:
    stars = shapes_model.sample(2, class_name="star", seed=7).array
    for fields in ({"class": "Star"}, {"prompt": "One hand-drawn STAR, please."}, {"prompt": "", "class": "star"}):
        answer = post(shapes_client, GENERATIONS, n=2, seed=7, **fields)
        np.testing.assert_array_equal(painted(answer), stars)
        assert [one["class"] for one in answer["data"]] == ["star"] * 2
    (none,) = post(shapes_client, GENERATIONS, seed=7, **{"class": None, "prompt": None})["data"]
    assert none["class"] is None
    boxes = shapes_model.complete(IMAGE, keep_rows=3, n=2, class_name="square", seed=4).array
    answer = post(shapes_client, EDITS, n=2, seed=4, prompt="a box", **PICTURE)
    np.testing.assert_array_equal(painted(answer), boxes)
    assert [one["class"] for one in answer["data"]] == ["square"] * 2
    form = {"class": "box", "keep_rows": "3", "n": "2", "seed": "4"}
    response = shapes_client.post(EDITS, files={"image": FILES["image"]}, data=form)
    assert response.json()["data"] == answer["data"]
    for name in (None, "circle", "star"):
        (one,) = post(shapes_client, LIKELIHOODS, image=MASKED["image"], **{"class": name})["data"]
        assert one["bits_per_dim"] == pytest.approx(shapes_model.score(IMAGE, class_name=name)[0], rel=1e-6)
    assert shapes_client.get("/v1/models/shapes").json()["classes"] == ["circle", "square", "star"]


def test_images_of_any_class_say_which_was_drawn(
    shapes_server: Server, shapes_client: httpx.Client, shapes_model: Model
) -> None:
    expected = shapes_model.sample(9, class_name="any", seed=7)
    assert len({*expected.classes}) == 3
    fields = {"n": 9, "seed": 7, "class": "any"}
    answer = post(shapes_client, GENERATIONS, **fields)
    np.testing.assert_array_equal(painted(answer), expected.array)
    assert tuple(one["class"] for one in answer["data"]) == expected.classes
    events = post_for_events(shapes_client, GENERATIONS, **fields)
    np.testing.assert_array_equal(images(events), expected.array)
    with connected(shapes_server.url) as websocket:
        job = websocket.paint(type="generate", **fields)
    np.testing.assert_array_equal(job.images(), expected.array.reshape(9, 35))
    ended = [one for one in job.messages if one["type"] == "image"]
    for said in (events, ended):
        assert {one["index"]: one["class"] for one in said} == dict(enumerate(expected.classes))


def test_a_class_that_is_not_known_is_refused(shapes_server: Server, shapes_client: httpx.Client) -> None:
    with connected(shapes_server.url) as websocket:
        for fields, param, code in WRONG.values():
            response = shapes_client.post(GENERATIONS, json=fields)
            assert_refused(response, 400, param, code)
            assert "circle, square, star" in response.text or "cat" not in str(fields)
            assert_refused(shapes_client.post(GENERATIONS, json={"stream": True, **fields}), 400, param, code)
            job = websocket.paint(type="complete", id=1, **PICTURE, **fields)
            assert_error({"error": job.messages[-1]["error"]}, param, code)


def test_any_class_is_for_generations_and_a_class_for_a_model_of_some(
    shapes_client: httpx.Client, client: httpx.Client
) -> None:
    for url in (EDITS, LIKELIHOODS):
        assert_refused(shapes_client.post(url, json={**PICTURE, "class": "any"}), 400, "class", "invalid_value")
        assert_refused(client.post(url, json={**PICTURE, "class": "star"}), 400, "class", "invalid_value")
    assert_refused(client.post(GENERATIONS, json={"class": "star"}), 400, "class", "invalid_value")
