"""`class` and `prompt` of generations, edits, likelihoods, events and the websocket, at a model that knows classes."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.running_server import Server
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected

GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
IMAGE = noise(7, 5)
FILE = text(encode(IMAGE))
NAMES = "circle, square, star"

ASKED = {  # label: fields, the class whose images they ask for
    "a class": ({"class": "square"}, "square"),
    "another word, in capitals": ({"class": "Box"}, "square"),
    "a prompt of one word": ({"prompt": "STAR"}, "star"),
    "a sentence": ({"prompt": "One hand-drawn disc, please."}, "circle"),
    "both, of one class": ({"prompt": "a box", "class": "square"}, "square"),
    "nothing": ({}, None),
    "nothing but nulls": ({"class": None, "prompt": None}, None),
    "an empty prompt": ({"prompt": "", "class": "star"}, "star"),
}
WRONG = {  # label: fields, the parameter that is named, the code
    "an unknown class": ({"class": "cat"}, "class", "invalid_value"),
    "an empty class": ({"class": ""}, "class", "invalid_value"),
    "a class that is a number": ({"class": 1}, "class", "invalid_value"),
    "a class beyond all words": ({"class": "x" * 300}, "class", "invalid_value"),
    "our own name of the field": ({"class_": "star"}, "class_", "unknown_parameter"),
    "a prompt without a class": ({"prompt": "a cat"}, "prompt", "prompt_not_supported"),
    "a prompt of two classes": ({"prompt": "a star in a box"}, "prompt", "prompt_not_supported"),
    "any class and a prompt of one": ({"prompt": "a star", "class": "any"}, "class", "invalid_value"),
    "class and prompt that differ": ({"prompt": "a star", "class": "square"}, "class", "invalid_value"),
}


def post(client: httpx.Client, url: str, **fields: object) -> dict:
    response = client.post(url, json=fields)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("label", ASKED)
def test_images_of_a_class_are_those_of_painting_without_a_server(
    shapes_client: httpx.Client, shapes_model: Model, label: str
) -> None:
    fields, name = ASKED[label]
    answer = post(shapes_client, GENERATIONS, n=2, seed=7, **fields)
    np.testing.assert_array_equal(painted(answer), shapes_model.sample(2, class_name=name, seed=7).array)


def test_images_of_any_class_say_which_was_drawn(
    shapes_server: Server, shapes_client: httpx.Client, shapes_model: Model
) -> None:
    law = shapes_model.sample(9, class_name="any", seed=7)
    assert len({*law.classes}) == 3
    fields = {"n": 9, "seed": 7, "class": "any"}
    answer = post(shapes_client, GENERATIONS, **fields)
    np.testing.assert_array_equal(painted(answer), law.array)
    assert tuple(one["class"] for one in answer["data"]) == law.classes
    events = post_for_events(shapes_client, GENERATIONS, **fields)
    np.testing.assert_array_equal(images(events), law.array)
    completed = {one["index"]: one["class"] for one in events if one["type"].endswith("completed")}
    assert tuple(completed[index] for index in range(9)) == law.classes
    with connected(shapes_server.url) as websocket:
        job = websocket.paint(type="generate", **fields)
        np.testing.assert_array_equal(job.images(), law.array.reshape(9, 35))
        named = {one["index"]: one["class"] for one in job.messages if one["type"] == "image"}
        assert tuple(named[index] for index in range(9)) == law.classes


@pytest.mark.parametrize(("fields", "name"), [({}, None), ({"class": "Box"}, "square"), ({"prompt": "a star"}, "star")])
def test_images_say_which_class_was_asked_for(shapes_client: httpx.Client, fields: dict, name: str | None) -> None:
    assert [one["class"] for one in post(shapes_client, GENERATIONS, n=2, **fields)["data"]] == [name] * 2
    answer = post(shapes_client, EDITS, image=FILE, keep_rows=3, **fields)
    assert [one["class"] for one in answer["data"]] == [name]


@pytest.mark.parametrize("url", [EDITS, LIKELIHOODS])
def test_any_class_is_for_generations(shapes_client: httpx.Client, url: str) -> None:
    response = shapes_client.post(url, json={"image": FILE, "keep_rows": 3, "class": "any"})
    assert_refused(response, 400, "class", "invalid_value")
    sentence = 'class "any" is for images that are painted from nothing; leave class out.'
    assert response.json()["error"]["message"] == sentence


def test_completions_are_of_the_class_too(shapes_client: httpx.Client, shapes_model: Model) -> None:
    expected = shapes_model.complete(IMAGE, keep_rows=3, n=2, class_name="star", seed=4).array
    fields = {"keep_rows": 3, "n": 2, "seed": 4}
    np.testing.assert_array_equal(painted(post(shapes_client, EDITS, image=FILE, prompt="star", **fields)), expected)
    form = {"class": "star", **{name: str(value) for name, value in fields.items()}}
    response = shapes_client.post(EDITS, files={"image": encode(IMAGE)}, data=form)
    np.testing.assert_array_equal(painted(response.json()), expected)


def test_likelihoods_are_those_under_the_class(shapes_client: httpx.Client, shapes_model: Model) -> None:
    for name in (None, "circle", "star"):
        answer = post(shapes_client, LIKELIHOODS, image=FILE, **{"class": name})
        expected = shapes_model.score(IMAGE, class_name=name).tolist()
        assert [one["bits_per_dim"] for one in answer["data"]] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("label", WRONG)
def test_a_class_that_is_not_known_is_refused(shapes_server: Server, shapes_client: httpx.Client, label: str) -> None:
    fields, param, code = WRONG[label]
    response = shapes_client.post(GENERATIONS, json=fields)
    assert_refused(response, 400, param, code)
    if "cat" in str(fields):
        assert NAMES in response.json()["error"]["message"]
    assert_refused(shapes_client.post(GENERATIONS, json={"stream": True, **fields}), 400, param, code)
    with connected(shapes_server.url) as websocket:
        job = websocket.paint(type="complete", id=1, image=FILE, keep_rows=3, **fields)
        assert_error({"error": job.messages[-1]["error"]}, param, code)


def test_a_model_without_classes_has_a_sentence_for_it(client: httpx.Client) -> None:
    for url in (GENERATIONS, EDITS, LIKELIHOODS):
        picture = {} if url == GENERATIONS else {"image": FILE, "keep_rows": 3}
        response = client.post(url, json={"class": "star", **picture})
        assert_refused(response, 400, "class", "invalid_value")
        assert response.json()["error"]["message"] == "This model knows no classes; leave class out."


def test_a_model_card_lists_the_classes(shapes_client: httpx.Client, client: httpx.Client) -> None:
    assert shapes_client.get("/v1/models/shapes").json()["classes"] == ["circle", "square", "star"]
    assert client.get("/v1/models/grey").json()["classes"] == []
