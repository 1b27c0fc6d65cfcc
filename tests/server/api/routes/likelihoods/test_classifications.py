"""POST /v1/images/classifications: the bits of pictures under every class, and what follows from them."""

from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model, load
from scanline.model.likelihood.classification import mixture_bits
from tests.support import shapes
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import CLASSIFICATIONS, CLEAN, MASKED, NOISY, post
from tests.support.server.running_server import serve
from tests.support.shapes import MAX_IMAGES, ROOM

NAMES = ["circle", "square", "star"]


def classified(client: httpx.Client, images: np.ndarray, **fields: object) -> list[dict]:
    answer = post(client, CLASSIFICATIONS, image=[text(encode(image)) for image in images], **fields)
    assert (set(answer), answer["model"]) == ({"created", "model", "typical_bits_per_dim", "read_by", "data"}, "shapes")
    assert answer["read_by"] == "bits"
    assert answer["typical_bits_per_dim"] == client.get("/v1/models/shapes").json()["typical_bits_per_dim"]
    return answer["data"]


def test_each_image_is_read_under_every_class_and_mirrored_too(
    shapes_client: httpx.Client, shapes_model: Model
) -> None:
    images = np.concatenate([shapes_model.sample(3, class_name=name, seed=2).array for name in NAMES])
    expected = shapes_model.classify(images)
    assert (expected.bits != expected.compared_bits).all()
    data = classified(shapes_client, images)
    assert [one["index"] for one in data] == list(range(9))
    assert [one["class"] for one in data] == list(expected.best)
    assert [list(one["posterior"]) for one in data] == [list(one["bits_per_dim"]) for one in data] == [NAMES] * 9
    posterior = [list(one["posterior"].values()) for one in data]
    np.testing.assert_allclose(posterior, expected.posterior, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose([list(one["bits_per_dim"].values()) for one in data], expected.bits / 35, rtol=1e-6)
    assert all(one["posterior_by_bits"] == one["posterior"] for one in data)
    assert classified(shapes_client, images, by_bits=False) == data  # a model without a class head has nothing else
    files = [("image[]", ("a.png", encode(image))) for image in images]
    assert shapes_client.post(CLASSIFICATIONS, files=files).json()["data"] == data


def test_noise_is_removed_and_each_image_is_compared_with_the_test_images(
    shapes_client: httpx.Client, shapes_model: Model
) -> None:
    before, after = (classified(shapes_client, np.stack([CLEAN, NOISY]), clean=clean) for clean in ("off", "auto"))
    assert [[one["noisy"] for one in each] for each in (before, after)] == [[False, True]] * 2
    assert before[0] == after[0]
    assert after[1]["bits_per_dim"] == after[0]["bits_per_dim"] != before[1]["bits_per_dim"]
    assert classified(shapes_client, NOISY[None])[0] == after[1] | {"index": 0}
    expected = shapes_model.classify(NOISY, clean="off")
    assert before[1]["tail_probability"] == pytest.approx(expected.tail_probabilities[0])
    assert before[1]["typical"] is bool(expected.typical[0]) is False
    mixture = mixture_bits(expected.bits)[0] / 35
    assert before[1]["any_class_bits_per_dim"] == pytest.approx(mixture, rel=1e-6)


def test_every_reading_counts_in_the_queue(shapes_client: httpx.Client) -> None:
    readings = 2 * len(NAMES)  # each picture is also read mirrored
    most = ROOM // readings
    response = shapes_client.post(CLASSIFICATIONS, json={"image": [MASKED["image"]] * (most + 1)})
    assert_refused(response, 429, None, "client_queue_full")
    assert len(classified(shapes_client, noise(1, 7, 5).repeat(most, axis=0))) == most
    too_many = [MASKED["image"]] * (MAX_IMAGES // readings + 1)
    assert_refused(shapes_client.post(CLASSIFICATIONS, json={"image": too_many}), 400, "image", "invalid_value")


def test_a_class_head_decides_and_bits_are_read_where_they_are_wanted(tmp_path: Path) -> None:
    directory = shapes.evaluate(shapes.save(tmp_path / "headed", class_head=True))
    images = noise(3, 7, 5)
    law = load(directory, device="cpu").classify(images)
    sent = {"image": [text(encode(image)) for image in images]}
    with serve(directory, "--slots", "2", "--max-images-per-request", "21") as server, server.client() as client:
        full, cheap = post(client, CLASSIFICATIONS, **sent), post(client, CLASSIFICATIONS, **sent, by_bits=False)
        too_many = client.post(CLASSIFICATIONS, json={"image": sent["image"] * 2})
        assert_refused(too_many, 400, "image", "invalid_value")
        assert "each counted twice for each class and once for the class head" in too_many.text
        assert len(post(client, CLASSIFICATIONS, image=sent["image"] * 7, by_bits=False)["data"]) == 21
    assert (full["read_by"], cheap["read_by"]) == ("head", "head")
    by_bits = "posterior_by_bits", "bits_per_dim", "any_class_bits_per_dim"
    for row, (one, other) in enumerate(zip(full["data"], cheap["data"], strict=True)):
        assert one["class"] == law.best[row]
        np.testing.assert_array_equal([*one["posterior"].values()], law.posterior[row])
        assert law.posterior_by_bits is not None
        np.testing.assert_array_equal([*one["posterior_by_bits"].values()], law.posterior_by_bits[row])
        assert one["bits_per_dim"].keys() == one["posterior"].keys()
        assert other == one | dict.fromkeys(by_bits)


def test_wrong_fields_and_a_model_without_classes_are_refused(
    shapes_client: httpx.Client, client: httpx.Client
) -> None:
    for fields, param, code in (
        ({}, "image", "missing_parameter"),
        ({"image": []}, "image", "invalid_value"),
        ({"image": text(encode(noise(5, 7))), "size_policy": "exact"}, "image", "wrong_size"),
        ({"image": MASKED["image"], "class": "star"}, "class", "unknown_parameter"),
    ):
        assert_refused(shapes_client.post(CLASSIFICATIONS, json=fields), 400, param, code)
    response = client.post(CLASSIFICATIONS, json={"image": MASKED["image"]})
    assert_refused(response, 400, "model", "invalid_value")
