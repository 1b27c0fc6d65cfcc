"""Films of painting over HTTP: by Accept or output_format, each that of the library."""

from base64 import b64decode

import numpy as np
import pytest

from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.inference import load
from tests.support.pictures import film_frames, painted
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import FILES, IMAGE, post
from tests.support.server.routes import EDITS, GENERATIONS

NUMBERS = {"frames": 3, "seconds": 0.5, "scale": 2}


@pytest.mark.parametrize("kind", ["gif", "webp", "apng"])
def test_films_are_those_of_the_library(client, grey_directory, tmp_path, kind):
    accept = {"accept": f"image/{kind}"}
    fields = {"seed": 4, **NUMBERS}
    response = client.post(GENERATIONS, json={"n": 2, **fields}, headers=accept)
    assert (response.headers["content-type"], response.headers["x-scanline-seed"]) == (
        f"image/{kind}",
        "4",
    )
    film = tmp_path / f"film.{kind}"
    load(grey_directory, device="cpu").sample(2, seed=4).save(film, **NUMBERS)
    assert response.content == film.read_bytes()
    answer = post(client, GENERATIONS, n=2, output_format=kind, response_format="url", **fields)
    assert answer["output_format"] == kind
    types, files = zip(*(image["url"].split(";base64,") for image in answer["data"]), strict=True)
    assert types == (f"data:image/{kind}",) * 2
    assert b64decode(files[0]) == client.post(GENERATIONS, json=fields, headers=accept).content


def test_edits_have_their_known_pixels_from_the_start_and_the_size_that_is_asked_for(client):
    data = {"keep_rows": "3", "seed": "4"}
    files = {"image": FILES["image"]}
    (whole,) = painted(client.post(EDITS, data=data, files=files).json())
    data |= {"size": "10x14", "size_policy": "resize", "frames": "2", "scale": "1"}
    (first, last), _ = film_frames(
        client.post(EDITS, data=data, files=files, headers={"accept": "image/webp"}).content
    )
    known = np.vstack((IMAGE[:3], np.full((4, 5), UNPAINTED, np.uint8)))
    for frame, expected in ((first, known), (last, whole)):
        np.testing.assert_array_equal(frame[..., 0], expected.repeat(2, axis=0).repeat(2, axis=1))


def test_accept_alone_asks_for_a_gif_and_an_apng_but_not_for_a_film_in_webp(client):
    def frames(accept, **fields):
        answer = client.post(GENERATIONS, json={"seed": 4, **fields}, headers={"accept": accept})
        return len(film_frames(answer.content)[0])

    assert (frames("image/gif"), frames("image/apng"), frames("image/*", scale=1)) == (32, 32, 32)
    assert (
        b"ANIM"
        not in client.post(GENERATIONS, json={"seed": 4}, headers={"accept": "image/webp"}).content
    )


@pytest.mark.parametrize(
    ("accept", "fields", "param", "words"),
    [
        (
            "image/gif",
            {"n": 1000, "frames": 256, "scale": 16, "seconds": 9},
            "frames",
            "is too large",
        ),
        (
            "",
            {"n": 64, "output_format": "gif", "frames": 64, "scale": 16},
            "frames",
            "each of 64 films of 80x112",
        ),
        (
            "image/png",
            {"frames": 9},
            "frames",
            "is for films; send Accept: image/gif, image/webp or image/apng.",
        ),
        (
            "image/gif",
            {"stream": True},
            "stream",
            "stream is answered with events, not with image/gif",
        ),
        (
            "",
            {"output_format": "gif", "stream": True},
            "output_format",
            "gif is for films; events have pictures",
        ),
        (
            "image/png",
            {"output_format": "apng"},
            "output_format",
            "apng is for films; send Accept: image/gif, image/webp or image/apng.",
        ),
        ("", {"frames": 9}, "frames", "image/apng, or output_format gif"),
    ],
)
def test_what_is_no_film_is_refused_with_one_sentence(client, accept, fields, param, words):
    refused = client.post(GENERATIONS, json=fields, headers={"accept": accept})
    assert_refused(refused, 400, param, "invalid_value")
    assert words in refused.json()["error"]["message"]
