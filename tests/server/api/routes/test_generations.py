"""POST /v1/images/generations: the images and the fields of the response."""

import httpx
import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import painted

URL = "/v1/images/generations"


def generate(client: httpx.Client, **fields: object) -> dict:
    response = client.post(URL, json=fields)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_answer_has_the_official_shape_and_ours(client: httpx.Client) -> None:
    answer = generate(client, n=2, seed=7)
    assert set(answer) == {
        *("created", "model", "seed", "temperature", "guidance", "data", "size", "output_format", "usage")
    }
    assert [set(one) for one in answer["data"]] == [
        {"b64_json", "index", "bits_per_dim", "class", "evidence_bits", "effective_particles"}
    ] * 2
    assert (answer["model"], answer["seed"], answer["size"], answer["output_format"]) == ("grey", 7, "5x7", "png")
    assert painted(generate(client)).shape == (1, 7, 5)


@pytest.mark.parametrize("temperature", [1.0, 0.4, 2])
def test_images_are_those_of_painting_without_a_server(
    client: httpx.Client, grey: Transformer, temperature: float
) -> None:
    alone = paint(grey, 5, seed=2**63 - 1, temperature=temperature)
    answer = generate(client, n=5, seed=2**63 - 1, temperature=temperature)
    np.testing.assert_array_equal(painted(answer), alone.images.reshape(5, 7, 5))
    assert [one["bits_per_dim"] for one in answer["data"]] == alone.bits_per_dim.tolist()


def test_colour_images_are_those_of_painting_without_a_server(colour_client: httpx.Client, colour: Transformer) -> None:
    answer = generate(colour_client, n=2, seed=3)
    np.testing.assert_array_equal(painted(answer), paint(colour, 2, seed=3).images.reshape(2, 3, 4, 3))


def test_the_first_images_do_not_depend_on_how_many_follow(client: httpx.Client) -> None:
    # enough images to be encoded in a thread
    many, few = generate(client, n=600, seed=5), generate(client, n=3, seed=5)
    assert (len(many["data"]), many["data"][:3]) == (600, few["data"])
    assert [one["index"] for one in many["data"]] == list(range(600))


def test_a_drawn_seed_paints_the_same_again(client: httpx.Client) -> None:
    drawn = generate(client, n=2)
    assert generate(client, n=2, seed=drawn["seed"])["data"] == drawn["data"]
    assert generate(client)["seed"] != generate(client)["seed"]
    assert 0 <= generate(client)["seed"] < 2**53


def test_usage_counts_bytes(colour_client: httpx.Client) -> None:
    assert generate(colour_client, n=3)["usage"] == {
        "input_tokens": 0,
        "input_tokens_details": {"text_tokens": 0, "image_tokens": 0},
        "output_tokens": 108,
        "total_tokens": 108,
    }


def test_harmless_fields_change_nothing(client: httpx.Client) -> None:
    auto = dict.fromkeys(("quality", "background", "moderation"), "auto") | {"output_compression": 100, "style": None}
    plain = {"prompt": "", "response_format": "b64_json", "stream": False, "partial_images": 0, "model": "grey"}
    people = {"user": "a-user", "safety_identifier": "x"}
    expected = generate(client, seed=9)["data"]
    for size in ("auto", "5x7"):
        assert generate(client, seed=9, size=size, **auto, **plain, **people)["data"] == expected
