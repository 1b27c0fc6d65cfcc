"""POST /v1/images/generations and /v1/images/edits: the images, the response's
fields and formats, and other sizes.
"""

import base64
import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.model.images.pictures import npy_chunks, resized
from tests.support.pictures import decode, encode, noise, painted, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import CLEAN, HOLE, IMAGE, MASKED, NOISY, generate, post
from tests.support.server.routes import CLASSIFICATIONS, EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.sse_reader import images, post_for_events

NPY = "application/x-npy"


def accepted(client, accept, **fields):
    return client.post(GENERATIONS, json={"seed": 4, **fields}, headers={"accept": accept})


def test_the_answer_has_the_official_shape_and_ours(client):
    answer = generate(client, n=2, seed=7)
    shape = {
        "created",
        "model",
        "seed",
        "temperature",
        "guidance",
        "data",
        "size",
        "output_format",
        "usage",
    }
    assert set(answer) == shape
    shape = {"b64_json", "index", "bits_per_dim", "class", "evidence_bits", "effective_particles"}
    assert [set(one) for one in answer["data"]] == [shape] * 2
    assert (answer["model"], answer["seed"], answer["size"], answer["output_format"]) == (
        "grey",
        7,
        "5x7",
        "png",
    )
    assert painted(generate(client)).shape == (1, 7, 5)


def test_a_seed_gives_the_same_images_however_many_follow(client):
    # enough images to be encoded in a thread
    many = generate(client, n=600, seed=5)
    few = generate(client, n=3, seed=5)
    assert (len(many["data"]), many["data"][:3]) == (600, few["data"])
    assert [one["index"] for one in many["data"]] == list(range(600))
    # a drawn seed paints the same again
    drawn = generate(client, n=2)
    assert generate(client, n=2, seed=drawn["seed"])["data"] == drawn["data"]
    assert generate(client)["seed"] != generate(client)["seed"]
    assert 0 <= generate(client)["seed"] < 2**53


def test_harmless_fields_change_nothing(client):
    auto = dict.fromkeys(("quality", "background", "moderation"), "auto") | {
        "output_compression": 100,
        "style": None,
    }
    plain = {
        "prompt": "",
        "response_format": "b64_json",
        "stream": False,
        "partial_images": 0,
        "model": "grey",
    }
    people = {"user": "a-user", "safety_identifier": "x"}
    expected = generate(client, seed=9)["data"]
    for size in ("auto", "5x7"):
        assert generate(client, seed=9, size=size, **auto, **plain, **people)["data"] == expected


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("webp", b"RIFF")])
def test_an_image_is_of_the_output_format_also_by_accept(colour_client, kind, magic):
    answer = generate(colour_client, seed=4, output_format=kind)
    assert answer["output_format"] == kind
    file = base64.b64decode(answer["data"][0]["b64_json"])
    assert file.startswith(magic)
    response = accepted(colour_client, f"image/{kind}")
    assert (response.headers["content-type"], response.headers["x-scanline-seed"]) == (
        f"image/{kind}",
        "4",
    )
    assert_array_equal(decode(response.content), decode(file))


def test_several_images_are_a_contact_sheet_or_an_array(client, colour_client):
    expected = painted(generate(client, seed=4, n=5))
    sheet = decode(accepted(client, "image/png", n=5).content)
    padded = np.concatenate((expected, np.zeros((1, 7, 5), np.uint8)))
    assert_array_equal(sheet, np.block([[*padded[:3]], [*padded[3:]]]))
    response = accepted(client, NPY, n=5)
    assert (response.headers["content-type"], response.headers["x-scanline-seed"]) == (NPY, "4")
    file = io.BytesIO()
    np.save(file, expected)
    assert response.content == file.getvalue()
    array = np.load(io.BytesIO(accepted(colour_client, NPY, n=3).content))
    assert_array_equal(array, painted(generate(colour_client, seed=4, n=3)))


ACCEPTED = {  # what is answered where the output format is WebP, and for which Accept
    "application/json": [
        "*/*",
        "application/json, image/png",
        "text/html",
        "application/problem+json, image/png",
        # Java
        "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
        "text/html, image/gif, */*; q=0.2",
        # a form of a page
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
        "image/png;q=.5, */*;q=.6",
    ],
    "image/webp": ["image/*", "image/avif,image/webp,image/png,*/*;q=0.8", "text/html, image/webp"],
    "image/png": ["IMAGE/PNG; q=0.9", "image/webp;q=0.5, image/png;q=0.8, application/json;q=0"],
}


def test_accept_selects_the_media_type(client):
    for kind, asked in ACCEPTED.items():
        for accept in asked:
            assert accepted(client, accept, output_format="webp").headers["content-type"] == kind, (
                accept
            )
    twice = [("accept", "text/html;q=0.5"), ("accept", "image/png")]
    assert (
        client.post(GENERATIONS, json={"seed": 4}, headers=twice).headers["content-type"]
        == "image/png"
    )
    response = accepted(client, "image/jpeg")
    assert response.status_code == 406
    sentence = (
        "Accept: image/jpeg is not supported; use image/png, image/webp, image/gif or image/apng."
    )
    assert response.json()["error"]["message"] == sentence


FILE = MASKED["image"]
COLOUR = noise(3, 4, 3)
COLOUR_HOLE = np.full((3, 4), 255, np.uint8)
COLOUR_HOLE[1, :2] = 0


def edit(client, **fields):
    return post(client, EDITS, **{"seed": 4, **fields})


def alpha(image, mask):
    """A file of the image with the mask as its alpha channel, in base64."""
    return text(encode(np.dstack((image, mask))))


def test_known_pixels_are_cleaned_where_the_request_says_so(shapes_client):
    given = {"image": text(encode(NOISY)), "keep_rows": 4}
    for clean, kept in (({}, NOISY), ({"clean": "auto"}, CLEAN)):
        assert_array_equal(painted(edit(shapes_client, **given, **clean))[0, :4], kept[:4])


def test_edits_without_known_pixels_are_generations_and_several_are_completed_in_turn(client):
    edited = edit(client, image=FILE, keep_rows=0, n=2)
    generated = generate(client, seed=4, n=2)
    assert_array_equal(painted(edited), painted(generated))
    for answer in (edited, generated):
        for image in answer["data"]:
            del image["b64_json"]  # whose recipes differ
    assert edited["data"] == generated["data"]
    greys = noise(2, 7, 5)
    found = painted(edit(client, image=[text(encode(image)) for image in greys], keep_rows=4, n=3))
    assert_array_equal(found[:, :4], greys[[0, 0, 0, 1, 1, 1], :4])


def test_a_mask_is_an_alpha_channel_or_a_picture(client):
    answer = edit(client, **MASKED)
    expected = answer["data"]
    first = painted(answer)
    assert edit(client, image=alpha(IMAGE, HOLE))["data"] == expected
    # a mask overrides the alpha of the image, and may itself use its alpha
    assert edit(client, image=alpha(IMAGE, HOLE[::-1]), mask=MASKED["mask"])["data"] == expected
    assert edit(client, image=FILE, mask=alpha(noise(7, 5, 3, seed=1), HOLE))["data"] == expected
    # each of several images has its own
    rows = np.where(np.arange(35).reshape(7, 5) < 15, 255, 0).astype(np.uint8)
    several = edit(client, image=[alpha(IMAGE, HOLE), alpha(IMAGE, rows)])
    assert_array_equal(painted(several)[0], first[0])
    assert several["data"][1]["effective_particles"] == 1.0 < expected[0]["effective_particles"]
    assert_array_equal(painted(several)[1][rows == 255], IMAGE[rows == 255])


def test_known_pixels_of_colour_are_unchanged_and_usage_separates_known_bytes(colour_client):
    answer = edit(
        colour_client, image=[text(encode(COLOUR))] * 2, mask=text(encode(COLOUR_HOLE)), n=3
    )
    assert_array_equal(
        painted(answer)[:, COLOUR_HOLE == 255], np.stack([COLOUR[COLOUR_HOLE == 255]] * 6)
    )
    details = {"text_tokens": 0, "image_tokens": 180}
    usage = {
        "input_tokens": 180,
        "input_tokens_details": details,
        "output_tokens": 36,
        "total_tokens": 216,
    }
    assert answer["usage"] == usage


LARGE = {"n": 4, "seed": 7, "size": "15x14", "size_policy": "resize"}
KEPT = np.where(np.arange(35).reshape(7, 5) < 20, 255, 0).astype(np.uint8)
SMALL = encode(np.dstack((IMAGE, IMAGE, IMAGE, KEPT)))
ENLARGED = encode(resized(IMAGE, (50, 70)))
MASK = encode(resized(KEPT, (50, 70)))
RESIZE = {"seed": "7", "size_policy": "resize"}


def test_images_of_another_size_in_every_kind_of_answer(client):
    expected = painted(generate(client, n=4, seed=7)).repeat(2, axis=1).repeat(3, axis=2)
    answer = generate(client, **LARGE)
    assert (answer["size"], answer["resized_from"]) == ("15x14", "5x7")
    assert_array_equal(painted(answer), expected)
    array = accepted(client, NPY, **LARGE)
    assert array.headers["x-scanline-resized-from"] == "5x7"
    assert_array_equal(np.load(io.BytesIO(array.content)), expected)
    sheet = decode(accepted(client, "image/png", **LARGE).content)
    assert_array_equal(sheet, np.block([[*expected[:2]], [*expected[2:]]]))
    events = post_for_events(client, GENERATIONS, **LARGE, partial_images=1)
    assert {(event["size"], event["resized_from"]) for event in events} == {("15x14", "5x7")}
    assert_array_equal(images(events), expected)


def test_no_more_than_one_image_of_an_array_is_in_memory_in_the_size_asked_for():
    done = []

    def doubled(image):
        done.append(image)
        return image.repeat(2, axis=0)

    chunks = npy_chunks(np.zeros((5, 7, 5), np.uint8), doubled)
    assert len(next(chunks) + next(chunks)) == 128 + 70
    assert len(done) == 2, "an empty one for the header, and the first image"


def test_what_no_file_has_room_for_is_refused_at_once(client, colour_client):
    resize = {"size_policy": "resize"}
    film = {"n": 1200, "frames": 2, "scale": 16, "size": "300x1", "output_format": "webp"}
    sheets = [
        {"n": n, "size": size} for n, size in ((81, "2048x100"), (81, "100x2048"), (4, "2048x2048"))
    ]
    for fields in (*sheets, film):
        assert_refused(
            accepted(client, "image/webp", **fields, **resize), 400, "size", "invalid_value"
        )
    assert_refused(
        accepted(colour_client, "image/png", n=2, size="2048x2048", **resize),
        400,
        "size",
        "invalid_value",
    )
    assert accepted(client, "image/webp", size="2048x2048", **resize).status_code == 200


def test_uploads_are_resized_where_that_is_asked_for(client):
    expected = client.post(EDITS, data={"seed": "7"}, files={"image": SMALL}).json()
    files = {"image": ENLARGED, "mask": MASK}
    answer = client.post(EDITS, data=RESIZE, files=files).json()
    assert answer["data"] == expected["data"]
    assert answer["uploads_resized_from"] == ["50x70"]
    assert "uploads_resized_from" not in expected
    array = client.post(EDITS, data=RESIZE, files=files, headers={"accept": NPY})
    assert array.headers["x-scanline-uploads-resized-from"] == "50x70"
    sent = client.post(
        EDITS, data=RESIZE | {"stream": "true", "keep_rows": "3"}, files={"image": ENLARGED}
    )
    assert '"uploads_resized_from":["50x70"]' in sent.text.replace('": ', '":')
    assert_refused(client.post(EDITS, data={"seed": "7"}, files=files), 400, "mask", "wrong_size")
    other = {"image": ENLARGED, "mask": encode(resized(KEPT, (10, 14)))}
    assert_refused(client.post(EDITS, data=RESIZE, files=other), 400, "mask", "wrong_size")


@pytest.mark.parametrize("route", [LIKELIHOODS, CLASSIFICATIONS])
def test_a_server_that_resizes_scores_pictures_of_any_size(shapes_client, route):
    answers = [
        shapes_client.post(route, files={"image": file}).json()
        for file in (ENLARGED, encode(IMAGE))
    ]
    assert answers[0].pop("uploads_resized_from") == ["50x70"]
    assert answers[0]["data"] == answers[1]["data"]
    exact = shapes_client.post(route, data={"size_policy": "exact"}, files={"image": ENLARGED})
    assert_refused(exact, 400, "image", "wrong_size")
    for fields in ({"size": "15x14", "size_policy": "exact"}, {"size": "large"}):
        assert_refused(shapes_client.post(GENERATIONS, json=fields), 400, "size", "invalid_value")
