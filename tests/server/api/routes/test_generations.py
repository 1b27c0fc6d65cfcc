"""POST /v1/images/generations: the images, the fields of the response and its formats."""

import base64
import io

import httpx
import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import decode, painted
from tests.support.server.json_requests import GENERATIONS, post


def generate(client: httpx.Client, **fields: object) -> dict:
    return post(client, GENERATIONS, **fields)


def accepted(client: httpx.Client, accept: str, **fields: object) -> httpx.Response:
    return client.post(GENERATIONS, json={"seed": 4, **fields}, headers={"accept": accept})


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


def test_colour_images_are_those_of_painting_without_a_server_and_usage_counts_bytes(
    colour_client: httpx.Client, colour: Transformer
) -> None:
    answer = generate(colour_client, n=2, seed=3)
    np.testing.assert_array_equal(painted(answer), paint(colour, 2, seed=3).images.reshape(2, 3, 4, 3))
    details = {"text_tokens": 0, "image_tokens": 0}
    usage = {"input_tokens": 0, "input_tokens_details": details, "output_tokens": 72, "total_tokens": 72}
    assert answer["usage"] == usage


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


def test_harmless_fields_change_nothing(client: httpx.Client) -> None:
    auto = dict.fromkeys(("quality", "background", "moderation"), "auto") | {"output_compression": 100, "style": None}
    plain = {"prompt": "", "response_format": "b64_json", "stream": False, "partial_images": 0, "model": "grey"}
    people = {"user": "a-user", "safety_identifier": "x"}
    expected = generate(client, seed=9)["data"]
    for size in ("auto", "5x7"):
        assert generate(client, seed=9, size=size, **auto, **plain, **people)["data"] == expected


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("webp", b"RIFF")])
def test_an_image_is_of_the_output_format_and_by_accept_the_picture_itself(
    colour_client: httpx.Client, kind: str, magic: bytes
) -> None:
    answer = generate(colour_client, seed=4, output_format=kind)
    assert answer["output_format"] == kind
    file = base64.b64decode(answer["data"][0]["b64_json"])
    assert file.startswith(magic)
    response = accepted(colour_client, f"image/{kind}")
    assert (response.headers["content-type"], response.headers["x-scanline-seed"]) == (f"image/{kind}", "4")
    np.testing.assert_array_equal(decode(response.content), decode(file))


def test_several_images_are_a_contact_sheet_or_an_array(client: httpx.Client, colour_client: httpx.Client) -> None:
    images = painted(generate(client, seed=4, n=5))
    sheet = decode(accepted(client, "image/png", n=5).content)
    padded = np.concatenate((images, np.zeros((1, 7, 5), np.uint8)))
    np.testing.assert_array_equal(sheet, np.block([[*padded[:3]], [*padded[3:]]]))
    response = accepted(client, "application/x-npy", n=5)
    assert (response.headers["content-type"], response.headers["x-scanline-seed"]) == ("application/x-npy", "4")
    file = io.BytesIO()
    np.save(file, images)
    assert response.content == file.getvalue()
    array = np.load(io.BytesIO(accepted(colour_client, "application/x-npy", n=3).content))
    np.testing.assert_array_equal(array, painted(generate(colour_client, seed=4, n=3)))


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json, image/png", "application/json"),
        ("text/html", "application/json"),
        ("image/*", "image/webp"),  # the output format
        ("IMAGE/PNG; q=0.9", "image/png"),
        ("image/webp;q=0.5, image/png;q=0.8, application/json;q=0", "image/png"),
        ("image/avif,image/webp,image/png,*/*;q=0.8", "image/webp"),
    ],
)
def test_accept_selects_the_media_type(client: httpx.Client, accept: str, kind: str) -> None:
    assert accepted(client, accept, output_format="webp").headers["content-type"] == kind


def test_an_unsupported_image_type_is_refused(client: httpx.Client) -> None:
    response = accepted(client, "image/jpeg")
    assert response.status_code == 406
    assert response.json()["error"]["message"] == (
        "Accept: image/jpeg is not supported; use image/png, image/webp, image/gif or image/apng."
    )
