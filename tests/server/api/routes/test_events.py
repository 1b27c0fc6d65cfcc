"""Server-sent events: their fields, partial images, headers, and what cannot be streamed."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scanline.server.api.payload.partial_images import UNPAINTED
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import HOLE, MASKED, post
from tests.support.server.routes import EDITS, GENERATIONS
from tests.support.server.sse_reader import images, named, post_for_events, read

GREYS = noise(2, 7, 5)
EDIT = {
    "image": [text(encode(image)) for image in GREYS],
    "mask": MASKED["mask"],
    "n": 3,
    "seed": 4,
}
COMMON = {
    "type",
    "b64_json",
    "created_at",
    "size",
    "output_format",
    "background",
    "quality",
    "index",
    "seed",
}
FACTS = {
    "class",
    "bits_per_dim",
    "evidence_bits",
    "effective_particles",
    "usage",
    "temperature",
    "guidance",
}


@pytest.mark.parametrize("wanted", [None, 0, 1, 2, 3])
def test_each_image_has_the_requested_partial_images(client, wanted):
    events = post_for_events(client, GENERATIONS, n=20, partial_images=wanted)
    parts = [
        (event["index"], event["partial_image_index"]) for event in named(events, "partial_image")
    ]
    assert parts == [(index, number) for index in range(20) for number in range(wanted or 0)]
    assert {event["index"]: event["type"] for event in events} == dict.fromkeys(
        range(20), "image_generation.completed"
    )


def test_a_partial_image_is_the_image_so_far_in_whole_pixels(client, colour_client):
    for sender, shape, cuts in ((client, (35, 1), [8, 17, 26]), (colour_client, (12, 3), [4, 8])):
        events = post_for_events(sender, GENERATIONS, n=9, partial_images=len(cuts))
        is_painted = np.arange(shape[0]) < np.array(cuts)[:, None]
        expected = np.where(is_painted[:, :, None], images(events).reshape(9, 1, *shape), UNPAINTED)
        assert_array_equal(images(events, "partial_image").reshape(expected.shape), expected)


def test_partial_completions_are_evenly_spaced_over_hidden_pixels_and_have_known_ones(client):
    """Each has the known pixels of its own image."""
    hidden = np.flatnonzero(HOLE.reshape(-1) == 0)  # of which the partial images have so many
    for painted_ones in ([3], [1, 3, 4]):
        events = post_for_events(
            client, EDITS, **EDIT, partial_images=len(painted_ones), particles=1
        )
        assert {event["type"] for event in events} == {
            "image_edit.partial_image",
            "image_edit.completed",
        }
        expected = images(events).reshape(6, 1, 35).repeat(len(painted_ones), axis=1)
        for number, count in enumerate(painted_ones):
            expected[:, number, hidden[count:]] = UNPAINTED
        assert_array_equal(images(events, "partial_image").reshape(expected.shape), expected)
    one_hidden = HOLE | (np.arange(35).reshape(7, 5) != hidden[0]).astype(np.uint8) * 255
    events = post_for_events(
        client, EDITS, **{**EDIT, "mask": text(encode(one_hidden))}, partial_images=3
    )
    assert {event["type"] for event in events} == {"image_edit.completed"}


def test_an_event_has_the_official_fields_and_ours(client):
    part, event = post_for_events(
        client, GENERATIONS, seed=7, output_format="webp", partial_images=1
    )
    assert set(part) == COMMON | {"partial_image_index"}
    assert set(event) == COMMON | FACTS
    found = [
        event[key] for key in ("size", "output_format", "background", "quality", "index", "seed")
    ]
    assert found == ["5x7", "webp", "opaque", "auto", 0, 7]


def test_the_usages_of_streamed_completions_are_those_of_a_plain_response(client):
    events = post_for_events(client, EDITS, **EDIT)
    whole = post(client, EDITS, **EDIT)["usage"]
    for part in ("input_tokens", "output_tokens", "total_tokens"):
        assert sum(event["usage"][part] for event in named(events, "completed")) == whole[part]


def test_the_headers_have_the_drawn_seed_and_forbid_buffering(client):
    fields = {"stream": True, "n": 3, "partial_images": 1}
    response = client.post(GENERATIONS, json=fields, headers={"accept-encoding": "gzip"})
    headers = response.headers
    assert {str(event["seed"]) for event in read(response.iter_lines())} == {
        headers["x-scanline-seed"]
    }
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-cache", "no")
    assert "content-encoding" not in headers


def test_an_image_media_type_cannot_be_streamed_and_any_other_can(client):
    for accept in ("image/png", "image/*", "application/x-npy"):
        response = client.post(GENERATIONS, json={"stream": True}, headers={"accept": accept})
        assert_refused(response, 400, "stream", "invalid_value")
    for accept in ("text/event-stream", "application/json", "*/*"):
        response = client.post(GENERATIONS, json={"stream": True}, headers={"accept": accept})
        assert response.headers["content-type"].startswith("text/event-stream")
