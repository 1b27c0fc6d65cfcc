"""POST /v1/images/classifications: the bits of pictures under every class, and what follows from them."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from scanline.model.likelihood.classification import mixture_bits
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.shapes import MAX_IMAGES, ROOM

URL = "/v1/images/classifications"
NAMES = ["circle", "square", "star"]


def classified(client: httpx.Client, images: np.ndarray, **fields: object) -> list[dict]:
    response = client.post(URL, json={"image": [text(encode(image)) for image in images], **fields})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (set(answer), answer["model"]) == ({"created", "model", "typical_bits_per_dim", "data"}, "shapes")
    assert answer["typical_bits_per_dim"] == client.get("/v1/models/shapes").json()["typical_bits_per_dim"]
    return answer["data"]


def test_each_image_is_read_under_every_class_and_mirrored_too(
    shapes_client: httpx.Client, shapes_model: Model
) -> None:
    images = np.concatenate([shapes_model.sample(3, class_name=name, seed=2).array for name in NAMES])
    law = shapes_model.classify(images)
    assert (law.bits != law.compared_bits).all()
    data = classified(shapes_client, images)
    assert [one["index"] for one in data] == list(range(9))
    assert [one["class"] for one in data] == list(law.best)
    assert [list(one["posterior"]) for one in data] == [list(one["bits_per_dim"]) for one in data] == [NAMES] * 9
    np.testing.assert_allclose([list(one["posterior"].values()) for one in data], law.posterior, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose([list(one["bits_per_dim"].values()) for one in data], law.bits / 35, rtol=1e-6)


def test_noise_is_removed_and_each_image_is_compared_with_the_test_images(
    shapes_client: httpx.Client, shapes_model: Model
) -> None:
    even, noisy = np.zeros((2, 7, 5), np.uint8)
    even[2:4], noisy[:], noisy[2:4] = 254, 3, 252
    before, after = (classified(shapes_client, np.stack([even, noisy]), clean=clean) for clean in ("off", "auto"))
    assert [[one["noisy"] for one in each] for each in (before, after)] == [[False, True]] * 2
    assert before[0] == after[0]
    assert after[1]["bits_per_dim"] == after[0]["bits_per_dim"] != before[1]["bits_per_dim"]
    assert classified(shapes_client, noisy[None])[0] == after[1] | {"index": 0}
    law = shapes_model.classify(noisy, clean="off")
    assert before[1]["tail_probability"] == pytest.approx(law.tail_probabilities[0])
    assert before[1]["typical"] is bool(law.typical[0]) is False
    mixture = mixture_bits(law.bits)[0] / 35
    assert before[1]["any_class_bits_per_dim"] == pytest.approx(mixture, rel=1e-6)


def test_bits_are_those_of_likelihoods_under_the_class(shapes_client: httpx.Client) -> None:
    image = noise(7, 5)
    (one,) = classified(shapes_client, image[None])
    for name in NAMES:
        answer = shapes_client.post("/v1/images/likelihoods", json={"image": text(encode(image)), "class": name})
        assert answer.json()["data"][0]["bits_per_dim"] == pytest.approx(one["bits_per_dim"][name], rel=1e-12)


def test_a_form_equals_json(shapes_client: httpx.Client) -> None:
    images = noise(2, 7, 5)
    response = shapes_client.post(URL, files=[("image[]", ("a.png", encode(image))) for image in images])
    assert response.json()["data"] == classified(shapes_client, images)


def test_every_reading_counts_in_the_queue(shapes_client: httpx.Client) -> None:
    readings = 2 * len(NAMES)  # each picture is also read mirrored
    most = ROOM // readings
    response = shapes_client.post(URL, json={"image": [text(encode(noise(7, 5)))] * (most + 1)})
    assert_refused(response, 429, None, "client_queue_full")
    assert len(classified(shapes_client, noise(1, 7, 5).repeat(most, axis=0))) == most
    too_many = [text(encode(noise(7, 5)))] * (MAX_IMAGES // readings + 1)
    assert_refused(shapes_client.post(URL, json={"image": too_many}), 400, "image", "invalid_value")


def test_a_model_without_classes_cannot_classify(client: httpx.Client) -> None:
    response = client.post(URL, json={"image": text(encode(noise(7, 5)))})
    assert_refused(response, 400, "model", "invalid_value")
    assert response.json()["error"]["message"].startswith("This model knows no classes")


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({}, "image", "missing_parameter"),
        ({"image": []}, "image", "invalid_value"),
        ({"image": text(encode(noise(5, 7))), "size_policy": "exact"}, "image", "wrong_size"),
        ({"image": text(encode(noise(7, 5))), "class": "star"}, "class", "unknown_parameter"),
        ({"image": text(encode(noise(7, 5))), "n": 2}, "n", "unknown_parameter"),
    ],
)
def test_wrong_fields_are_refused(shapes_client: httpx.Client, fields: dict, param: str, code: str) -> None:
    assert_refused(shapes_client.post(URL, json=fields), 400, param, code)
