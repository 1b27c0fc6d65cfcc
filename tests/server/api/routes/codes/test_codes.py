"""POST /v1/images/codes: files of codes of given pictures, as long as what the model says of them."""

import base64

import httpx
import numpy as np
import pytest

from scanline.model.formats.code_file import MEDIA_TYPE, read
from scanline.model.inference import Model
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import LIKELIHOODS, post

URL = "/v1/images/codes"
IMAGES = noise(5, 7, 5)


def coded(client: httpx.Client, images: np.ndarray, **fields: object) -> dict:
    return post(client, URL, image=[text(encode(image)) for image in images], **fields)


def test_each_picture_has_a_file_of_its_own_as_long_as_its_likelihood_says(client: httpx.Client) -> None:
    answer = coded(client, IMAGES)
    card = client.get("/v1/models/grey").json()
    assert (answer["model"], answer["coding"], answer["precision"]) == ("grey", card["coding"], card["precision"])
    likelihoods = post(client, LIKELIHOODS, image=[text(encode(image)) for image in IMAGES])["data"]
    for index, (one, likelihood) in enumerate(zip(answer["data"], likelihoods, strict=True)):
        data = base64.b64decode(one["code"])
        file = read(data)
        assert (one["index"], one["class"], one["bytes"]) == (index, None, len(data))
        assert (file.coding, file.precision, file.count) == (card["coding"], card["precision"], 1)
        assert one["bits_per_dim"] == one["bits"] / 35 == pytest.approx(likelihood["bits_per_dim"], rel=0.01)
        assert one["bits"] <= 8 * len(file.codes.codes[0]) < one["bits"] + 9


def test_a_file_of_all_pictures_by_field_or_by_accept(client: httpx.Client) -> None:
    files = [("image", ("a.png", encode(image))) for image in IMAGES]
    whole = client.post(URL, files=files, data={"output_format": "file", "images_a_code": "2"})
    assert whole.headers["content-type"] == MEDIA_TYPE
    assert whole.headers["content-disposition"] == 'attachment; filename="images.scan"'
    file = read(whole.content)
    assert (file.count, file.codes.length, len(file.codes.codes)) == (5, 2, 3)
    accepted = client.post(URL, files=files, headers={"accept": MEDIA_TYPE})
    assert len(read(accepted.content).codes.codes) == 1
    assert len(accepted.content) < len(whole.content) < sum(one["bytes"] for one in coded(client, IMAGES)["data"])


def test_a_class_is_used_where_it_makes_a_code_shorter(shapes_client: httpx.Client, shapes_model: Model) -> None:
    stars = shapes_model.sample(6, class_name="star", seed=2).array
    plain, starred = (coded(shapes_client, stars, **fields)["data"] for fields in ({}, {"class": "star"}))
    assert {one["class"] for one in plain} == {None}
    assert {one["class"] for one in starred} == {None, "star"}
    for before, after in zip(plain, starred, strict=True):
        assert after["bits"] <= before["bits"]
        assert (after["bits"] == before["bits"]) == (after["class"] is None)


WRONG = {  # label: fields, the parameter that is named, the code
    "no image": ({"image": []}, "image", "invalid_value"),
    "a class of a model without any": ({"class": "star"}, "class", "invalid_value"),
    "another form": ({"output_format": "png"}, "output_format", "invalid_value"),
    "no images to a code": ({"images_a_code": 0}, "images_a_code", "invalid_value"),
    "a field of likelihoods": ({"keep_rows": 3}, "keep_rows", "unknown_parameter"),
    "too many images": ({"image": [""] * 2001}, "image", "invalid_value"),
}


@pytest.mark.parametrize("label", WRONG)
def test_wrong_fields_are_refused(client: httpx.Client, label: str) -> None:
    fields, param, code = WRONG[label]
    assert_refused(client.post(URL, json={"image": text(encode(IMAGES[0])), **fields}), 400, param, code)
