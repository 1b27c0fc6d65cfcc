"""POST /v1/images/likelihoods with a mask: what the known pixels cost, whatever the hidden ones are."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import FILES, HOLE, IMAGE, LIKELIHOODS, MASKED, post
from tests.support.shapes import MAX_IMAGES

FILE, MASK = MASKED["image"], MASKED["mask"]
OTHER = noise(7, 5, seed=1)

WRONG = {  # label: fields, the parameter that is named, the code
    "particles without a mask": ({"particles": 16}, "particles", "invalid_value"),
    "more particles than slots": ({"mask": MASK, "particles": 64}, "particles", "invalid_value"),
    "a single repeat": ({"mask": MASK, "repeats": 1}, "repeats", "invalid_value"),
    "repeats as text": ({"mask": MASK, "repeats": "some"}, "repeats", "invalid_value"),
    "more repeats than images": ({"keep_rows": 3, "repeats": MAX_IMAGES + 1}, "repeats", "invalid_value"),
    "bits of every byte": ({"mask": MASK, "per_pixel": True}, "per_pixel", "invalid_value"),
    "two masks": ({"mask": MASK, "keep_rows": 3}, "keep_rows", "invalid_value"),
    "nothing known": ({"keep_rows": 0}, "keep_rows", "invalid_mask"),
    "a mask of nothing known": ({"mask": text(encode(np.zeros((7, 5), np.uint8)))}, "mask", "invalid_mask"),
    "nothing hidden": ({"mask": text(encode(np.full((7, 5), 255, np.uint8)))}, "mask", "invalid_mask"),
    "all rows": ({"keep_rows": 7}, "keep_rows", "invalid_value"),
    "a temperature": ({"mask": MASK, "temperature": 0.9}, "temperature", "unknown_parameter"),
}


def likelihoods(client: httpx.Client, **fields: object) -> dict:
    return post(client, LIKELIHOODS, **{"image": FILE, **fields})


def test_the_estimate_is_that_of_its_completions(shapes_client: httpx.Client, shapes_model: Model) -> None:
    fields = {"seed": 4, "particles": 8, "repeats": 6, "class": "star"}
    answer = likelihoods(shapes_client, mask=MASK, **fields)
    expected = shapes_model.score_known(IMAGE, mask=HOLE == 255, class_name="star", particles=8, repeats=6, seed=4)
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
    form = {name: str(value) for name, value in fields.items()}
    assert shapes_client.post(LIKELIHOODS, files=FILES, data=form).json()["data"] == answer["data"]
    both = likelihoods(shapes_client, **{**fields, "image": [FILE, text(encode(OTHER))]}, mask=MASK)["data"]
    assert both[0] == answer["data"][0]
    assert both[1]["evidence_bits"] != both[0]["evidence_bits"]


def test_a_drawn_seed_gives_the_same_estimates_again(shapes_client: httpx.Client) -> None:
    drawn = likelihoods(shapes_client, mask=MASK)
    assert (drawn["particles"], drawn["repeats"]) == (16, 4)
    assert drawn["data"][0]["standard_error"] > 0
    assert likelihoods(shapes_client, mask=MASK, seed=drawn["seed"])["data"] == drawn["data"]


def test_kept_rows_cost_what_the_model_says_of_them(shapes_client: httpx.Client, shapes_model: Model) -> None:
    answer = likelihoods(shapes_client, image=[FILE, text(encode(OTHER))], keep_rows=3)
    bits = shapes_model.score(np.stack([IMAGE, OTHER]), per_pixel=True)[:, :3].sum(axis=(1, 2))
    assert [one["evidence_bits"] for one in answer["data"]] == pytest.approx(bits.tolist(), rel=1e-6)
    found = [(one["index"], one["known_bytes"], one["standard_error"]) for one in answer["data"]]
    assert found == [(0, 15, 0.0), (1, 15, 0.0)]


@pytest.mark.parametrize("label", WRONG)
def test_a_wrong_field_is_named(shapes_client: httpx.Client, label: str) -> None:
    fields, param, code = WRONG[label]
    assert_refused(shapes_client.post(LIKELIHOODS, json={"image": FILE, **fields}), 400, param, code)
