"""POST /v1/images/codes, and /v1/images/decodings: the images of codes, byte for byte."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.model.formats.code_file import MEDIA_TYPE, Codes, read
from tests.support.pictures import decode, encode, noise, painted, text
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.json_requests import post
from tests.support.server.routes import CODES, DECODINGS
from tests.support.server.sse_reader import images, named, post_for_events

IMAGES = noise(7, 7, 5)
TEXTS = [text(encode(image)) for image in IMAGES]


def file_of(client, pictures, **fields):
    sent = {"image": [text(encode(image)) for image in pictures], "output_format": "file", **fields}
    return client.post(CODES, json=sent).content


@pytest.fixture(scope="module")
def file(server):
    with server.client() as client:
        return file_of(client, IMAGES, images_a_code=3)


def changed(file, **fields):
    return replace(read(file), **fields).to_bytes()


def flipped(file):
    """The file with another bit in the first byte of its second code."""
    codes = read(file).codes
    first, second, third = codes.codes
    return changed(
        file, codes=replace(codes, codes=(first, bytes([second[0] ^ 1]) + second[1:], third))
    )


def test_a_file_as_the_body_in_a_form_and_in_json(client, file):
    accept = {"accept": "application/x-npy"}
    body = client.post(DECODINGS, content=file, headers={"content-type": MEDIA_TYPE, **accept})
    form = client.post(DECODINGS, files={"code": ("a.scan", file)}, headers=accept)
    for response in (body, form):
        assert_array_equal(np.load(io.BytesIO(response.content)), IMAGES)
        assert "x-scanline-seed" not in response.headers
    assert_array_equal(painted(post(client, DECODINGS, code=text(file))), IMAGES)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [("5", [5]), ("1-2,0,8-9", [1, 2, 0, 8, 9]), ([13.0, "2-3"], [13, 2, 3]), (4, [4])],
)
def test_some_images_of_several_files(client, file, wanted, numbers):
    single = file_of(client, IMAGES[::-1], images_a_code=1)
    answer = post(client, DECODINGS, code=[text(file), text(single)], images=wanted)
    assert [one["index"] for one in answer["data"]] == numbers
    assert_array_equal(painted(answer), np.concatenate([IMAGES, IMAGES[::-1]])[numbers])


def test_codes_with_labels_and_without(shapes_client):
    data = post(shapes_client, CODES, image=TEXTS, **{"class": "star"})["data"]
    assert {one["class"] for one in data} == {None, "star"}
    answer = post(shapes_client, DECODINGS, code=[one["code"] for one in data])
    assert_array_equal(painted(answer), IMAGES)
    assert not {"seed", "temperature", "guidance"} & set(answer)
    assert answer["usage"]["output_tokens"] == IMAGES.size
    assert [one["index"] for one in answer["data"]] == list(range(7))
    assert [one["class"] for one in answer["data"]] == [one["class"] for one in data]
    assert [one["bits_per_dim"] for one in answer["data"]] == pytest.approx(
        [one["bits_per_dim"] for one in data], 0.1
    )


def test_a_sheet_a_film_and_a_stream_with_partial_images(client, file):
    body = {"code": text(file), "images": "0-3"}
    sheet = client.post(DECODINGS, json=body, headers={"accept": "image/png"})
    assert_array_equal(decode(sheet.content), np.block([[*IMAGES[:2]], [*IMAGES[2:4]]]))
    film = client.post(DECODINGS, json={**body, "frames": 3}, headers={"accept": "image/webp"})
    assert (film.status_code, film.headers["content-type"]) == (200, "image/webp")
    events = post_for_events(client, DECODINGS, code=text(file), images="4,1", partial_images=2)
    assert_array_equal(images(events), IMAGES[[1, 4]])
    assert {event["type"] for event in events} == {
        "image_decoding.partial_image",
        "image_decoding.completed",
    }
    assert [event["index"] for event in named(events, "completed")] == [1, 4]
    assert all("seed" not in event and "guidance" not in event for event in events)


def test_another_bit_is_an_error_also_in_a_stream_and_is_seen_on_demand(client, file):
    code = text(flipped(file))
    response = client.post(DECODINGS, json={"code": code})
    assert_refused(response, 400, "code", "checksum_differs")
    assert "images 3 to 5" in response.json()["error"]["message"]
    answer = post(client, DECODINGS, code=code, unchecked=True)
    assert_array_equal((painted(answer) == IMAGES).all((1, 2)), [1, 1, 1, 0, 0, 0, 1])
    post(client, DECODINGS, code=code, images="0-2,6")
    *events, error = post_for_events(client, DECODINGS, code=code)
    assert_error(error, "code", "checksum_differs")
    assert 5 not in {event["index"] for event in events}


WRONG = {  # label: how a file is changed, the code
    "a later version": (lambda file: file[:7] + b"\x63" + file[8:], "unknown_version"),
    "another model's": (
        lambda file: changed(file, coding="0" * 32, precision="int8"),
        "other_model",
    ),
    "pixels of another shape": (lambda file: changed(file, height=5, width=7), "invalid_code"),
    "labels of a model without classes": (
        lambda file: changed(file, labels=11, codes=replace(read(file).codes, labelled=(True,))),
        "invalid_code",
    ),
}


@pytest.mark.parametrize("label", WRONG)
def test_a_wrong_code_is_refused_also_of_several(client, file, label):
    change, code = WRONG[label]
    response = client.post(DECODINGS, json={"code": text(change(file))})
    assert_refused(response, 400, "code", code)
    assert (
        code != "other_model"
        or "at precision int8; grey at " in response.json()["error"]["message"]
    )
    response = client.post(DECODINGS, json={"code": [text(file), text(change(file))]})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "code")


def test_more_images_than_a_request_may_have(client, file):
    # of a few bytes more
    bomb = changed(file, count=4096, codes=Codes((b"\1" * 300,), 4096), checksums=(0,))
    assert_refused(client.post(DECODINGS, json={"code": text(bomb)}), 400, "code", "invalid_value")
    response = client.post(DECODINGS, json={"code": text(bomb), "images": "4095"})
    assert_refused(response, 400, "images", "invalid_value")
    assert "4096 images" in response.json()["error"]["message"]


def test_each_picture_has_a_file_of_its_own_as_long_as_it_says(client):
    answer = post(client, CODES, image=TEXTS)
    card = client.get("/v1/models/grey").json()
    assert (answer["model"], answer["coding"]) == ("grey", card["coding"])
    assert answer["precision"] == card["precision"]
    for index, one in enumerate(answer["data"]):
        data = base64.b64decode(one["code"])
        file = read(data)
        assert (one["index"], one["class"], one["bytes"]) == (index, None, len(data))
        assert (file.coding, file.precision, file.count) == (card["coding"], card["precision"], 1)
        assert one["bits_per_dim"] == one["bits"] / 35
        assert one["bits"] <= 8 * len(file.codes.codes[0]) < one["bits"] + 9


def test_a_file_of_all_pictures_by_field_or_by_accept(client):
    files = [("image", ("a.png", encode(image))) for image in IMAGES]
    whole = client.post(CODES, files=files, data={"output_format": "file", "images_a_code": "3"})
    assert whole.headers["content-type"] == MEDIA_TYPE
    assert whole.headers["content-disposition"] == 'attachment; filename="images.scan"'
    file = read(whole.content)
    assert (file.count, file.codes.length, len(file.codes.codes)) == (7, 3, 3)
    accepted = client.post(CODES, files=files, headers={"accept": MEDIA_TYPE})
    assert len(read(accepted.content).codes.codes) == 1
    single = sum(one["bytes"] for one in post(client, CODES, image=TEXTS)["data"])
    assert len(accepted.content) < len(whole.content) < single
