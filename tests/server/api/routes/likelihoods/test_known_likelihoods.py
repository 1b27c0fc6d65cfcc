"""POST /v1/images/likelihoods with a mask: what the known pixels cost, whatever the hidden ones are."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.shapes import MAX_IMAGES

URL = "/v1/images/likelihoods"
IMAGES = noise(2, 7, 5)
HOLE = np.full((7, 5), 255, np.uint8)
HOLE[2:5, 1:3] = 0
FILE, MASK = text(encode(IMAGES[0])), text(encode(HOLE))

WRONG = {  # label: fields, the parameter that is named, the code
    "particles without a mask": ({"particles": 16}, "particles", "invalid_value"),
    "repeats without a mask": ({"repeats": 4}, "repeats", "invalid_value"),
    "a seed without a mask": ({"seed": 4}, "seed", "invalid_value"),
    "more particles than slots": ({"mask": MASK, "particles": 64}, "particles", "invalid_value"),
    "a single repeat": ({"mask": MASK, "repeats": 1}, "repeats", "invalid_value"),
    "too many repeats": ({"mask": MASK, "repeats": 257}, "repeats", "invalid_value"),
    "repeats as text": ({"mask": MASK, "repeats": "some"}, "repeats", "invalid_value"),
    "more repeats than images": ({"keep_rows": 3, "repeats": MAX_IMAGES + 1}, "repeats", "invalid_value"),
    "bits of every byte": ({"mask": MASK, "per_pixel": True}, "per_pixel", "invalid_value"),
    "two masks": ({"mask": MASK, "keep_rows": 3}, "keep_rows", "invalid_value"),
    "nothing known": ({"keep_rows": 0}, "keep_rows", "invalid_mask"),
    "a mask of nothing known": ({"mask": text(encode(np.zeros((7, 5), np.uint8)))}, "mask", "invalid_mask"),
    "nothing hidden": ({"mask": text(encode(np.full((7, 5), 255, np.uint8)))}, "mask", "invalid_mask"),
    "all rows": ({"keep_rows": 7}, "keep_rows", "invalid_value"),
    "a temperature": ({"mask": MASK, "temperature": 0.9}, "temperature", "unknown_parameter"),
    "an unknown class": ({"mask": MASK, "class": "cat"}, "class", "invalid_value"),
}


def likelihoods(client: httpx.Client, **fields: object) -> dict:
    response = client.post(URL, json={"image": FILE, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_the_estimate_is_that_of_its_completions(shapes_client: httpx.Client, shapes_model: Model) -> None:
    answer = likelihoods(shapes_client, mask=MASK, seed=4, particles=8, repeats=6, **{"class": "star"})
    expected = shapes_model.score_known(IMAGES[0], mask=HOLE == 255, class_name="star", particles=8, repeats=6, seed=4)
    assert set(answer) == {"created", "model", "seed", "particles", "repeats", "data"}
    assert (answer["seed"], answer["particles"], answer["repeats"]) == (4, 8, 6)
    assert answer["data"] == [
        {
            "index": 0,
            "evidence_bits": pytest.approx(expected.bits, rel=1e-6),
            "standard_error": pytest.approx(expected.standard_error, rel=1e-3),
            "known_bytes": 29,
            "bits_per_known_byte": pytest.approx(expected.bits / 29, rel=1e-6),
        }
    ]


def test_a_drawn_seed_gives_the_same_estimates_again(shapes_client: httpx.Client) -> None:
    drawn = likelihoods(shapes_client, mask=MASK)
    assert (drawn["particles"], drawn["repeats"]) == (16, 4)
    assert drawn["data"][0]["standard_error"] > 0
    assert likelihoods(shapes_client, mask=MASK, seed=drawn["seed"])["data"] == drawn["data"]


def test_kept_rows_cost_what_the_model_says_of_them(shapes_client: httpx.Client, shapes_model: Model) -> None:
    answer = likelihoods(shapes_client, image=[text(encode(image)) for image in IMAGES], keep_rows=3)
    bits = shapes_model.score(IMAGES, per_pixel=True)[:, :3].sum(axis=(1, 2))
    assert [one["evidence_bits"] for one in answer["data"]] == pytest.approx(bits.tolist(), rel=1e-6)
    assert [one["standard_error"] for one in answer["data"]] == [0.0, 0.0]
    assert [(one["index"], one["known_bytes"]) for one in answer["data"]] == [(0, 15), (1, 15)]


def test_each_image_has_an_estimate_of_its_own(shapes_client: httpx.Client) -> None:
    both = likelihoods(shapes_client, image=[text(encode(image)) for image in IMAGES], mask=MASK, seed=4)["data"]
    first = likelihoods(shapes_client, mask=MASK, seed=4)["data"]
    assert both[0] == first[0]
    assert both[1]["evidence_bits"] != first[0]["evidence_bits"]


def test_a_form_equals_json(shapes_client: httpx.Client) -> None:
    files = {"image": encode(IMAGES[0]), "mask": encode(HOLE)}
    data = {"seed": "4", "particles": "8", "repeats": "3", "class": "disc"}
    response = shapes_client.post(URL, files=files, data=data)
    fields = {"seed": 4, "particles": 8, "repeats": 3, "class": "circle"}
    assert response.json()["data"] == likelihoods(shapes_client, mask=MASK, **fields)["data"]


@pytest.mark.parametrize("label", WRONG)
def test_a_wrong_field_is_named(shapes_client: httpx.Client, label: str) -> None:
    fields, param, code = WRONG[label]
    assert_refused(shapes_client.post(URL, json={"image": FILE, **fields}), 400, param, code)
