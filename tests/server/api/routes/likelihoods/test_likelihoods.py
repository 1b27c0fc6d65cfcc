"""POST /v1/images/likelihoods: bits of given images."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.json_requests import CLEAN, GENERATIONS, LIKELIHOODS, NOISY, post

GREYS = noise(2, 7, 5)
COLOURS = noise(2, 3, 4, 3)


def likelihoods(client: httpx.Client, images: np.ndarray, **fields: object) -> dict:
    return post(client, LIKELIHOODS, image=[text(encode(image)) for image in images], **fields)


def test_bits_per_dim_are_those_of_the_model(client: httpx.Client, grey: Transformer) -> None:
    alone = Generator(grey, 1).score(GREYS.reshape(2, 35)).mean(axis=1).tolist()
    answer = likelihoods(client, GREYS)
    assert (set(answer), answer["model"]) == ({"created", "model", "typical_bits_per_dim", "data"}, "grey")
    assert answer["typical_bits_per_dim"] is None
    unknown = {"typical": None, "tail_probability": None, "noisy": False}
    assert answer["data"] == [
        {"index": index, "bits_per_dim": pytest.approx(bits, rel=1e-12), **unknown} for index, bits in enumerate(alone)
    ]


def test_bits_of_every_byte_have_the_images_shape(
    colour_client: httpx.Client, colour: Transformer, client: httpx.Client
) -> None:
    answer = likelihoods(colour_client, COLOURS, per_pixel=True)
    alone = Generator(colour, 1).score(COLOURS.reshape(2, 36)).reshape(2, 3, 4, 3)
    np.testing.assert_allclose([one["per_pixel"] for one in answer["data"]], alone, rtol=1e-12)
    answer = likelihoods(client, GREYS, per_pixel=True)
    assert np.shape([one["per_pixel"] for one in answer["data"]]) == (2, 7, 5)
    files = [("image[]", ("a.png", encode(image))) for image in GREYS]
    response = client.post(LIKELIHOODS, files=files, data={"per_pixel": "true"})
    assert response.json()["data"] == answer["data"]


def test_a_painted_image_scores_the_bits_of_its_painting(client: httpx.Client) -> None:
    answer = post(client, GENERATIONS, n=4, seed=1, temperature=0.7)
    again = likelihoods(client, painted(answer))
    expected, scored = ([one["bits_per_dim"] for one in each["data"]] for each in (answer, again))
    assert scored == pytest.approx(expected, rel=1e-5)


def test_a_model_with_an_evaluation_says_how_unusual_an_image_is(
    shapes_client: httpx.Client, shapes_model: Model
) -> None:
    (one,) = likelihoods(shapes_client, NOISY[None])["data"]
    assert (one["typical"], one["noisy"]) == (False, True)
    assert one["tail_probability"] == pytest.approx(shapes_model.tail_probabilities(NOISY[None])[0])
    (cleaned,) = likelihoods(shapes_client, NOISY[None], clean="auto")["data"]
    assert cleaned["bits_per_dim"] == pytest.approx(shapes_model.score(CLEAN)[0])
