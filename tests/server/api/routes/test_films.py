"""Films of painting over HTTP: by Accept, of the images that the seed has otherwise, known pixels from the start."""

from base64 import b64decode

import httpx
import numpy as np
import pytest

from scanline.model.images.contact_sheet import UNPAINTED
from tests.support.pictures import encode, film_frames, noise, painted
from tests.support.server.error_answers import assert_refused

URL, EDITS = "/v1/images/generations", "/v1/images/edits"
NUMBERS = {"frames": 3, "seconds": 0.5, "scale": 2}


@pytest.mark.parametrize("kind", ["image/gif", "image/webp", "image/apng"])
def test_generations_appear_pixel_by_pixel(client: httpx.Client, kind: str) -> None:
    images = painted(client.post(URL, json={"n": 2, "seed": 4}).json())
    response = client.post(URL, json={"n": 2, "seed": 4, **NUMBERS}, headers={"accept": kind})
    assert (response.headers["content-type"], response.headers["x-scanline-seed"]) == (kind, "4")
    frames, durations = film_frames(response.content)
    images[(images == 254) & (kind == "image/gif")] = 255  # which has 255 colours
    half = np.where(np.arange(35).reshape(7, 5) < 17, images, np.uint8(UNPAINTED))
    law = np.stack([np.hstack(each) for each in (np.full_like(images, UNPAINTED), half, images)])
    np.testing.assert_array_equal(frames[..., 0], law.repeat(2, axis=1).repeat(2, axis=2))
    assert durations == [250, 250, 2000]


def test_edits_have_their_known_pixels_from_the_start_and_the_size_that_is_asked_for(client: httpx.Client) -> None:
    picture = noise(7, 5)
    data = {"keep_rows": "3", "seed": "4", "size": "10x14", "size_policy": "resize", "frames": "2", "scale": "1"}
    files = {"image": encode(picture)}
    (whole,) = painted(client.post(EDITS, data={"keep_rows": "3", "seed": "4"}, files=files).json())
    film = client.post(EDITS, data=data, files=files, headers={"accept": "image/webp"})
    (first, last), _ = film_frames(film.content)
    known = np.vstack((picture[:3], np.full((4, 5), UNPAINTED, np.uint8)))
    for frame, law in ((first, known), (last, whole)):
        np.testing.assert_array_equal(frame[..., 0], law.repeat(2, axis=0).repeat(2, axis=1))


@pytest.mark.parametrize("kind", ["gif", "webp", "apng"])
def test_json_has_a_film_of_each_image(client: httpx.Client, kind: str) -> None:
    fields = {"seed": 4, **NUMBERS}
    answer = client.post(URL, json={"n": 2, "output_format": kind, "response_format": "url", **fields}).json()
    assert answer["output_format"] == kind
    types, files = zip(*(image["url"].split(";base64,") for image in answer["data"]), strict=True)
    assert types == (f"data:image/{kind}",) * 2
    first = client.post(URL, json=fields, headers={"accept": f"image/{kind}"})
    assert b64decode(files[0]) == first.content
    frames, _ = film_frames(b64decode(files[1]))
    images = painted(client.post(URL, json={"n": 2, "seed": 4}).json())
    images[(images == 254) & (kind == "gif")] = 255
    np.testing.assert_array_equal(frames[2, ::2, ::2, 0], images[1])


def test_accept_alone_asks_for_a_gif_and_an_apng_but_not_for_a_film_in_webp(client: httpx.Client) -> None:
    def frames(accept: str, **fields: object) -> int:
        return len(film_frames(client.post(URL, json={"seed": 4, **fields}, headers={"accept": accept}).content)[0])

    assert (frames("image/gif"), frames("image/apng"), frames("image/*", scale=1)) == (32, 32, 32)
    still = client.post(URL, json={"seed": 4}, headers={"accept": "image/webp"})
    assert b"ANIM" not in still.content


@pytest.mark.parametrize(
    ("accept", "fields", "param", "words"),
    [
        ("image/gif", {"frames": 1}, "frames", "a whole number from 2 to 256, not 1."),
        ("image/gif", {"seconds": 61}, "seconds", "seconds must be from 0.1 to 60, not 61.0."),
        ("image/gif", {"scale": "2"}, "scale", "a whole number from 1 to 16, not '2'."),
        ("image/gif", {"n": 1000, "frames": 256, "scale": 16, "seconds": 9}, "frames", "has at most"),
        ("image/png", {"frames": 9}, "frames", "is for films; send Accept: image/gif, image/webp or image/apng, or"),
        ("application/json", {"scale": 2}, "scale", "is for films; send Accept:"),
        ("image/gif", {"stream": True}, "stream", "stream is answered with events, not with image/gif"),
        (
            "",
            {"n": 64, "output_format": "gif", "frames": 64, "scale": 16},
            "frames",
            "each of 64 films of 80x112 pixels has at most",
        ),
        ("", {"output_format": "gif", "stream": True}, "output_format", "gif is for films; events have pictures"),
        ("image/png", {"output_format": "apng"}, "output_format", "apng is for films; send Accept:"),
    ],
)
def test_what_is_no_film_is_refused_with_one_sentence(
    client: httpx.Client, accept: str, fields: dict[str, object], param: str, words: str
) -> None:
    refused = client.post(URL, json=fields, headers={"accept": accept})
    assert_refused(refused, 400, param, "invalid_value")
    assert words in refused.json()["error"]["message"]
