"""Files over HTTP carry their recipe, whose request is answered with the same file."""

import json
from base64 import b64decode

import numpy as np
import pytest

from scanline.model.images import recipe as recipes
from scanline.model.tasks.recipe import known_sha256
from tests.support.pictures import encode, noise, text
from tests.support.server.json_requests import HOLE, IMAGE, MASKED, post
from tests.support.server.routes import EDITS, GENERATIONS
from tests.support.server.sse_reader import named, post_for_events

FILM = {"frames": 3, "seconds": 0.5, "scale": 2}
KNOWN = (HOLE == 255).astype("uint8").tobytes()


def recipe_of(data):
    recipe = recipes.read(data)
    assert recipe is not None
    return recipe


def recipe_in(item):
    """The recipe of an item of JSON."""
    data = b64decode(item["b64_json"])
    return recipe_of(data)


ASKED = [
    {"n": 5},
    {"class": ["star", "none"]},
    {"class": "any", "n": 2},
]


@pytest.mark.parametrize("kind", ["png", "webp", "gif", "apng"])
@pytest.mark.parametrize("fields", ASKED)
def test_the_request_of_a_recipe_is_answered_with_the_same_file(shapes_client, kind, fields):
    accept = {"accept": f"image/{kind}"}
    film = FILM if kind in ("gif", "apng") else {}

    def file(body):
        sent = {**body, **film}
        response = shapes_client.post(GENERATIONS, json=sent, headers=accept)
        return response.content

    data = file({"seed": 2**63 - 1, **fields})
    recipe = recipe_of(data)
    request = recipe["request"]
    assert file(request) == data
    assert request["model"] == "shapes"
    cards = shapes_client.get("/v1/models").json()
    (card,) = cards["data"]
    assert recipe["digest"] == card["digest"]
    assert film.items() <= recipe.items()
    columns = 3 if fields.get("n") == 5 else 2
    assert recipe["columns"] == columns


def test_images_of_json_and_of_events_are_each_one_by_its_index(shapes_client):
    fields = {"seed": 7, "n": 3, "class": "any", "guidance": 2}
    answer = post(shapes_client, GENERATIONS, **fields)
    events = post_for_events(shapes_client, GENERATIONS, **fields)
    streamed = {}
    for event in named(events, "completed"):
        streamed[event["index"]] = event["b64_json"]
    for item in answer["data"]:
        index = item["index"]
        assert streamed[index] == item["b64_json"]
        recipe = recipe_in(item)
        request = recipe["request"]
        assert recipe["index"] == index
        assert request["class"] == item["class"]
        assert "n" not in request
        again = post(shapes_client, GENERATIONS, **request, n=index + 1)
        assert again["data"][-1] == item


def test_completions_name_what_was_known_by_a_digest(client):
    other = noise(7, 5, seed=2)
    pictures = [text(encode(IMAGE)), text(encode(other))]
    mask = MASKED["mask"]
    answer = post(client, EDITS, image=pictures, mask=mask, n=2, seed=7)
    first = known_sha256(IMAGE.tobytes(), KNOWN)
    second = known_sha256(other.tobytes(), KNOWN)
    recipes_of_items = [recipe_in(item) for item in answer["data"]]
    digests = [recipe["known_sha256"] for recipe in recipes_of_items]
    assert digests == [[first], [first], [second], [second]]
    first_recipe = recipes_of_items[0]
    assert "keep_rows" not in first_recipe["request"]
    bits = np.frombuffer(b64decode(first_recipe["mask"]), np.uint8)
    unpacked = np.unpackbits(bits, count=len(KNOWN), bitorder="little")
    assert unpacked.tobytes() == KNOWN
    # hidden pixels are not part of it
    hidden = IMAGE.copy()
    hidden[HOLE == 0] = 9
    assert known_sha256(hidden.tobytes(), KNOWN) == first
    rows = post(client, EDITS, image=pictures[0], keep_rows=3, seed=7)
    (item,) = rows["data"]
    of_rows = recipe_in(item)
    assert of_rows["request"]["keep_rows"] == 3
    assert "mask" not in of_rows


def test_no_recipe_has_a_prompt(shapes_client):
    sentence = "a star for my secret friend"
    response = shapes_client.post(
        GENERATIONS,
        json={"prompt": sentence},
        headers={"accept": "image/png"},
    )
    recipe = recipe_of(response.content)
    assert recipe["request"]["class"] == "star"
    assert b"secret" not in response.content


@pytest.mark.parametrize("kind", ["png", "webp", "gif"])
def test_a_recipe_has_at_most_so_many_characters(kind):
    empty = len(json.dumps({"request": ""}))
    most = recipes.MAX_CHARACTERS - empty
    fitting = {"request": most * "a"}
    longer = {"request": (most + 1) * "a"}
    assert recipes.options(fitting, kind)
    assert recipes.options(longer, kind) == {}
