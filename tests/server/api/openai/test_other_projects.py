"""Requests as other projects send them by default, with a prompt
that names a class (docs/clients.md).

Each body is what the project's code builds where its user sets nothing but the
server's address, a key and a model.
"""

import base64
from typing import Any

import httpx
import numpy as np
import pytest

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

# fields, where the image is in the answer, its size
BODIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "Open WebUI": ({"model": "dall-e-2", "n": 1, "size": "512x512", **B64}, "b64_json", "512x512"),
    "Open WebUI, gpt-image": (
        {"model": "gpt-image-1", "n": 1, "size": "512x512"},
        "b64_json",
        "512x512",
    ),
    "LobeChat": ({"model": "dall-e-3", "n": 1, "size": SQUARE, **B64}, "b64_json", SQUARE),
    "LobeChat, gpt-image": ({"model": "gpt-image-1", "n": 1}, "b64_json", OWN),
    "LibreChat, DALL-E 3": (
        {"model": "dall-e-3", "n": 1, "quality": "hd", "style": "vivid", "size": SQUARE},
        "url",
        SQUARE,
    ),
    "LibreChat, image tools": (
        AUTO | {"model": "gpt-image-1", "n": 1, "output_format": "png"},
        "b64_json",
        OWN,
    ),
    "n8n": ({"model": "gpt-image-1-mini"}, "b64_json", OWN),
    "n8n, DALL-E 3": ({"model": "dall-e-3", **B64}, "b64_json", OWN),
    "ComfyUI": (COMFY | {"n": 1, "seed": 0}, "b64_json", OWN),
    "LangChain": (
        {"model": "dall-e-2", "n": 1, "size": SQUARE, "quality": "standard"},
        "url",
        SQUARE,
    ),
    "Haystack": (
        {"model": "gpt-image-2", "size": SQUARE, "quality": "auto", "n": 1},
        "b64_json",
        SQUARE,
    ),
    "litellm": ({"model": "gpt-image-1", "n": 1}, "b64_json", OWN),
    "litellm, /health": ({"model": "shapes"}, "b64_json", OWN),
    "the AI SDK": ({"model": "dall-e-3", "n": 1, **B64}, "b64_json", OWN),
}
FORMS: dict[str, tuple[str, dict[str, str], str, str]] = {  # the picture's name; then as above
    "Open WebUI": ("image", {"model": "gpt-image-1"}, "b64_json", OWN),
    "Open WebUI, chat": ("image[]", {"model": "gpt-image-1"}, "b64_json", OWN),
    "Open WebUI, DALL-E 2": ("image[]", {"model": "dall-e-2", **B64}, "b64_json", OWN),
    "LobeChat": (
        "image",
        {"model": "gpt-image-1", "n": "1", "input_fidelity": "high"},
        "b64_json",
        OWN,
    ),
    "LibreChat": (
        "image[]",
        {"model": "gpt-image-1", "quality": "auto", "size": "auto"},
        "b64_json",
        OWN,
    ),
    "n8n": (
        "image[]",
        {"model": "gpt-image-1", "n": "1", "size": SQUARE, "quality": "auto"},
        "b64_json",
        SQUARE,
    ),
    "n8n, DALL-E 2": (
        "image",
        {"model": "dall-e-2", "n": "1", "size": SQUARE, **URL},
        "url",
        SQUARE,
    ),
    "ComfyUI": ("image", COMFY | {"n": "1", "seed": "0"}, "b64_json", OWN),
}


def sent_image(response: httpx.Response, place: str, size: str) -> np.ndarray:
    """Return the one image of an answer, which must be where the client looks
    for it, and of the size asked for.
    """
    __tracebackhide__ = True
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (answer["model"], answer["size"]) == ("shapes", size)
    assert answer.get("resized_from") == (None if size == OWN else OWN)
    (item,) = answer["data"]
    assert {"b64_json", "url"} & set(item) == {place}
    image = decode(base64.b64decode(item[place].removeprefix("data:image/png;base64,")))
    assert "{1}x{0}".format(*image.shape) == size
    return image


def own_pixels(image: np.ndarray) -> np.ndarray:
    """Return the middle pixel of each block that a pixel of the model has become."""
    height, width = image.shape
    return image[(2 * np.arange(7) + 1) * height // 14][:, (2 * np.arange(5) + 1) * width // 10]


@pytest.mark.parametrize("label", BODIES)
def test_a_default_generation_is_painted(shapes_client: httpx.Client, label: str) -> None:
    fields, place, size = {"seed": 7} | BODIES[label][0], *BODIES[label][1:]
    image = sent_image(shapes_client.post(GENERATIONS, json=fields | PROMPT), place, size)
    exact = {"class": "star", "seed": fields["seed"], "size_policy": "exact"}
    expected = sent_image(shapes_client.post(GENERATIONS, json=exact), "b64_json", OWN)
    np.testing.assert_array_equal(own_pixels(image), expected)


@pytest.mark.parametrize("label", FORMS)
def test_a_default_edit_is_painted(shapes_client: httpx.Client, label: str) -> None:
    name, fields, place, size = FORMS[label]
    response = shapes_client.post(EDITS, data=fields | PROMPT, files={name: ("a.png", UPLOAD)})
    np.testing.assert_array_equal(
        own_pixels(sent_image(response, place, size))[KNOWN], IMAGE[KNOWN]
    )


def test_one_model_has_several_names(shapes_client: httpx.Client) -> None:
    models = shapes_client.get("/v1/models").json()["data"]
    assert [(model["id"], model["aliases"]) for model in models] == [
        ("shapes", list(shapes.NAMES[1:]))
    ]
    assert shapes_client.get("/v1/models/gpt-image-1").json() == models[0]
