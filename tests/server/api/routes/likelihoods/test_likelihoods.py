"""POST /v1/images/likelihoods: bits of whole images, and with a mask what the known pixels cost."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import CLEAN, FILES, GENERATIONS, HOLE, IMAGE, LIKELIHOODS, MASKED, NOISY, post
from tests.support.shapes import MAX_IMAGES

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


def estimates(client: httpx.Client, **fields: object) -> dict:
    return post(client, LIKELIHOODS, **{"image": FILE, **fields})


def test_the_estimate_is_that_of_its_completions(shapes_client: httpx.Client, shapes_model: Model) -> None:
    fields = {"seed": 4, "particles": 8, "repeats": 6, "class": "star"}
    answer = estimates(shapes_client, mask=MASK, **fields)
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
    both = estimates(shapes_client, **{**fields, "image": [FILE, text(encode(OTHER))]}, mask=MASK)["data"]
    assert both[0] == answer["data"][0]
    assert both[1]["evidence_bits"] != both[0]["evidence_bits"]


def test_a_drawn_seed_gives_the_same_estimates_again(shapes_client: httpx.Client) -> None:
    drawn = estimates(shapes_client, mask=MASK)
    assert (drawn["particles"], drawn["repeats"]) == (16, 4)
    assert drawn["data"][0]["standard_error"] > 0
    assert estimates(shapes_client, mask=MASK, seed=drawn["seed"])["data"] == drawn["data"]


def test_kept_rows_cost_what_the_model_says_of_them(shapes_client: httpx.Client, shapes_model: Model) -> None:
    answer = estimates(shapes_client, image=[FILE, text(encode(OTHER))], keep_rows=3)
    bits = shapes_model.score(np.stack([IMAGE, OTHER]), per_pixel=True)[:, :3].sum(axis=(1, 2))
    assert [one["evidence_bits"] for one in answer["data"]] == pytest.approx(bits.tolist(), rel=1e-6)
    found = [(one["index"], one["known_bytes"], one["standard_error"]) for one in answer["data"]]
    assert found == [(0, 15, 0.0), (1, 15, 0.0)]


@pytest.mark.parametrize("label", WRONG)
def test_a_wrong_field_is_named(shapes_client: httpx.Client, label: str) -> None:
    fields, param, code = WRONG[label]
    assert_refused(shapes_client.post(LIKELIHOODS, json={"image": FILE, **fields}), 400, param, code)
