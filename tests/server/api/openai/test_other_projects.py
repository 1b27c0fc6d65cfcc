"""Requests as other projects send them by default, with a prompt
that names a class (docs/clients.md).

Each body is what the project's code builds where its user sets nothing but the
server's address, a key and a model.
"""

import base64

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tests.support import shapes
from tests.support.pictures import decode, encode, noise
from tests.support.server.routes import EDITS, GENERATIONS

PROMPT = {"prompt": "a star"}
B64, URL = ({"response_format": place} for place in ("b64_json", "url"))
AUTO = {"background": "auto", "quality": "auto", "size": "auto"}
COMFY = {
    "model": "gpt-image-2",
    "quality": "low",
    "background": "auto",
    "size": "auto",
    "moderation": "low",
}
IMAGE = noise(7, 5)
KNOWN = np.arange(35).reshape(7, 5) < 20
ALPHA = np.where(KNOWN, 255, 0).astype(np.uint8)  # the mask
# enlarged, as they send pictures
UPLOAD = encode(np.dstack((IMAGE, IMAGE, IMAGE, ALPHA)).repeat(20, 0).repeat(20, 1))
OWN = "5x7"
SQUARE = "1024x1024"

BODIES = {
    "Open WebUI": {"model": "dall-e-2", "n": 1, "size": "512x512", **B64},
    "Open WebUI, gpt-image": {"model": "gpt-image-1", "n": 1, "size": "512x512"},
    "LobeChat": {"model": "dall-e-3", "n": 1, "size": SQUARE, **B64},
    "LobeChat, litellm, gpt-image": {"model": "gpt-image-1", "n": 1},
    "LibreChat, DALL-E 3": {
        "model": "dall-e-3",
        "n": 1,
        "quality": "hd",
        "style": "vivid",
        "size": SQUARE,
    },
    "LibreChat, image tools": {"model": "gpt-image-1", "n": 1, "output_format": "png", **AUTO},
    "n8n": {"model": "gpt-image-1-mini"},
    "n8n, DALL-E 3": {"model": "dall-e-3", **B64},
    "ComfyUI": {**COMFY, "n": 1, "seed": 0},
    "LangChain": {"model": "dall-e-2", "n": 1, "size": SQUARE, "quality": "standard"},
    "Haystack": {"model": "gpt-image-2", "size": SQUARE, "quality": "auto", "n": 1},
    "litellm, /health": {"model": "shapes"},
    "the AI SDK": {"model": "dall-e-3", "n": 1, **B64},
}
FORMS = {  # the picture's name, and the other fields
    "Open WebUI": ("image", {"model": "gpt-image-1"}),
    "Open WebUI, chat": ("image[]", {"model": "gpt-image-1"}),
    "Open WebUI, DALL-E 2": ("image[]", {"model": "dall-e-2", **B64}),
    "LobeChat": ("image", {"model": "gpt-image-1", "n": "1", "input_fidelity": "high"}),
    "LibreChat": ("image[]", {"model": "gpt-image-1", "quality": "auto", "size": "auto"}),
    "n8n": ("image[]", {"model": "gpt-image-1", "n": "1", "size": SQUARE, "quality": "auto"}),
    "n8n, DALL-E 2": ("image", {"model": "dall-e-2", "n": "1", "size": SQUARE, **URL}),
    "ComfyUI": ("image", {**COMFY, "n": "1", "seed": "0"}),
}
LOOK_FOR_URLS = ("LibreChat, DALL-E 3", "LangChain", "n8n, DALL-E 2")


def sent_image(response, label, size):
    """Return the one image of an answer, which must be where the client looks
    for it, and of the size asked for.
    """
    assert response.status_code == 200, response.text
    answer = response.json()
    size = OWN if size == "auto" else size
    assert (answer["model"], answer["size"]) == ("shapes", size)
    assert answer.get("resized_from") == (None if size == OWN else OWN)
    (item,) = answer["data"]
    place = "url" if label in LOOK_FOR_URLS else "b64_json"
    assert {"b64_json", "url"} & set(item) == {place}
    image = decode(base64.b64decode(item[place].removeprefix("data:image/png;base64,")))
    assert "{1}x{0}".format(*image.shape) == size
    return image


def own_pixels(image):
    """Return the middle pixel of each block that a pixel of the model has become."""
    height, width = image.shape
    return image[(2 * np.arange(7) + 1) * height // 14][:, (2 * np.arange(5) + 1) * width // 10]


@pytest.mark.parametrize("label", BODIES)
def test_a_default_generation_is_painted(shapes_client, label):
    fields = {"seed": 7, **BODIES[label]}
    response = shapes_client.post(GENERATIONS, json={**fields, **PROMPT})
    image = sent_image(response, label, fields.get("size", "auto"))
    exact = {"class": "star", "seed": fields["seed"], "size_policy": "exact"}
    expected = sent_image(shapes_client.post(GENERATIONS, json=exact), "", OWN)
    assert_array_equal(own_pixels(image), expected)


@pytest.mark.parametrize("label", FORMS)
def test_a_default_edit_is_painted(shapes_client, label):
    name, fields = FORMS[label]
    files = {name: ("a.png", UPLOAD)}
    response = shapes_client.post(EDITS, data={**fields, **PROMPT}, files=files)
    image = sent_image(response, label, fields.get("size", "auto"))
    assert_array_equal(own_pixels(image)[KNOWN], IMAGE[KNOWN])


def test_one_model_has_several_names(shapes_client):
    models = shapes_client.get("/v1/models").json()["data"]
    assert [(model["id"], model["aliases"]) for model in models] == [
        ("shapes", list(shapes.NAMES[1:]))
    ]
    assert models[0]["classes"] == ["circle", "square", "star"]
    assert shapes_client.get("/v1/models/gpt-image-1").json() == models[0]
