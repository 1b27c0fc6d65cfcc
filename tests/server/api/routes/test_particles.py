"""`particles` of edits, events and the websocket: completions that fit the known pixels on both sides of a hole."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from scanline.server.api.errors import from_exception
from scanline.server.api.payload.partial_images import UNPAINTED
from scanline.server.engine.job import EngineFailedError
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server
from tests.support.server.sse_reader import images as event_images
from tests.support.server.sse_reader import named, post_for_events
from tests.support.server.websocket_client import connected
from tests.support.shapes import MAX_IMAGES, ROOM, SLOTS
from tests.support.waiting import wait_for

URL = "/v1/images/edits"
IMAGE = noise(7, 5)
HOLE = np.full((7, 5), 255, np.uint8)  # known bytes before, between and after the bytes to paint
HOLE[2:5, 1:3] = 0
MASKED = {"image": text(encode(IMAGE)), "mask": text(encode(HOLE))}
MEASURES = ("bits_per_dim", "evidence_bits", "effective_particles")


def edit(client: httpx.Client, **fields: object) -> dict:
    response = client.post(URL, json={"seed": 4, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def measures(data: list[dict]) -> list[list[float | None]]:
    return [[one[name] for name in MEASURES] for one in data]


@pytest.mark.parametrize("fields", [{}, {"particles": 1}, {"particles": 5}, {"particles": SLOTS}], ids=str)
def test_completions_are_those_of_painting_without_a_server(
    shapes_client: httpx.Client, shapes_model: Model, fields: dict
) -> None:
    answer = edit(shapes_client, n=3, temperature=0.9, **MASKED, **fields)
    expected = shapes_model.complete(IMAGE, mask=HOLE == 255, n=3, seed=4, temperature=0.9, **fields)
    np.testing.assert_array_equal(painted(answer), expected.array)
    law = zip(expected.bits_per_dim, expected.evidence_bits, expected.effective_particles, strict=True)
    np.testing.assert_allclose(measures(answer["data"]), list(law), rtol=1e-6)
    np.testing.assert_array_equal(painted(answer)[:, HOLE == 255], np.stack([IMAGE[HOLE == 255]] * 3))


def test_particles_change_nothing_where_nothing_known_follows_a_hidden_byte(shapes_client: httpx.Client) -> None:
    answers = [edit(shapes_client, image=MASKED["image"], keep_rows=4, n=2, particles=count) for count in (1, 16, 64)]
    assert answers[0]["data"] == answers[1]["data"] == answers[2]["data"]
    assert [one["effective_particles"] for one in answers[0]["data"]] == [1.0, 1.0]


def test_images_with_masks_of_their_own_have_particles_of_their_own(
    shapes_client: httpx.Client, shapes_model: Model
) -> None:
    rows = np.where(np.arange(7) < 3, 255, 0).astype(np.uint8)[:, None].repeat(5, axis=1)
    files = [text(encode(np.dstack((IMAGE, mask)))) for mask in (rows, HOLE)]
    answer = edit(shapes_client, image=files, particles=6)
    effective = [one["effective_particles"] for one in answer["data"]]
    assert effective[0] == 1.0 < effective[1] <= 6.0
    first = shapes_model.complete(IMAGE, keep_rows=3, n=1, seed=4).array
    np.testing.assert_array_equal(painted(answer)[:1], first)


def test_events_and_the_websocket_have_the_same_images_and_evidence(
    shapes_server: Server, shapes_client: httpx.Client
) -> None:
    fields = {**MASKED, "n": 3, "seed": 4, "particles": 8}
    whole = edit(shapes_client, **fields)
    events = post_for_events(shapes_client, URL, partial_images=3, **fields)
    np.testing.assert_array_equal(event_images(events), painted(whole))
    assert measures(named(events, "completed")) == measures(whole["data"])
    with connected(shapes_server.url) as websocket:
        job = websocket.paint(type="complete", **fields)
    np.testing.assert_array_equal(job.images(), painted(whole).reshape(3, 35))
    ended = sorted((one for one in job.messages if one["type"] == "image"), key=lambda one: one["index"])
    assert measures(ended) == measures(whole["data"])


def test_partial_images_with_pixels_of_one_particle_say_that_they_are_provisional(shapes_client: httpx.Client) -> None:
    found = []
    for seed in range(20):  # how far an image is when its partial images are cut is a matter of time
        events = post_for_events(shapes_client, URL, partial_images=3, seed=seed, particles=8, **MASKED)
        partial = named(events, "partial_image")
        assert [event["partial_image_index"] for event in partial] == [0, 1, 2]
        pictures, whole = event_images(events, "partial_image"), event_images(events)[0]
        for event, picture in zip(partial, pictures, strict=True):
            np.testing.assert_array_equal(picture[HOLE == 255], IMAGE[HOLE == 255])
            differs = (picture != whole) & (picture != UNPAINTED)
            found.append((event.get("provisional"), bool(differs.any())))
        if (True, True) in found:
            break
    assert set(found) <= {(None, False), (True, False), (True, True)}
    assert (True, True) in found


def test_a_form_has_particles_too(shapes_client: httpx.Client) -> None:
    files = {"image": encode(IMAGE), "mask": encode(HOLE)}
    response = shapes_client.post(URL, files=files, data={"seed": "4", "particles": "3"})
    assert response.json()["data"] == edit(shapes_client, particles=3, **MASKED)["data"]
    response = shapes_client.post(URL, files=files, data={"particles": "many"})
    assert_refused(response, 400, "particles", "invalid_value")


def test_particles_that_are_no_number_from_1_to_64_are_refused(
    shapes_server: Server, shapes_client: httpx.Client
) -> None:
    with connected(shapes_server.url) as websocket:
        for particles in (0, 65, -1, "eight", "8", True, 1.5, [4], {}, 10**30):
            response = shapes_client.post(URL, json={**MASKED, "particles": particles})
            assert_refused(response, 400, "particles", "invalid_value")
            assert response.json()["error"]["message"].startswith("particles must be a whole number from 1 to 64, not ")
            job = websocket.paint(type="complete", id=1, particles=particles, **MASKED)
            assert_error({"error": job.messages[-1]["error"]}, "particles", "invalid_value")


def test_particles_without_a_mask_are_refused(shapes_client: httpx.Client) -> None:
    response = shapes_client.post(URL, json={"image": MASKED["image"], "particles": 4})
    assert_refused(response, 400, "mask", "missing_parameter")
    response = shapes_client.post("/v1/images/generations", json={"particles": 4})
    assert_refused(response, 400, "particles", "unknown_parameter")


def test_more_particles_than_the_server_seats_are_refused(shapes_server: Server, shapes_client: httpx.Client) -> None:
    expected = f"This server has {SLOTS} slots, and an image of 64 particles needs one for each."
    for fields in ({}, {"stream": True}):
        response = shapes_client.post(URL, json={**MASKED, "particles": 64, **fields})
        assert_refused(response, 400, "particles", "invalid_value")
        assert response.json()["error"]["message"] == expected
    with connected(shapes_server.url) as websocket:
        job = websocket.paint(type="complete", id=1, particles=64, **MASKED)
    assert job.messages[-1]["error"]["message"] == expected


def test_an_engine_that_has_fewer_slots_by_now_is_the_same_error() -> None:
    for code, param in (("too_many_particles", "particles"), ("guidance_not_supported", "guidance")):
        error = from_exception(EngineFailedError("This server has fewer slots.", code))
        found = (error.status, error.body["error"]["param"], error.body["error"]["type"])
        assert found == (400, param, "invalid_request_error")


def test_the_limits_count_every_particle(shapes_client: httpx.Client) -> None:
    reason = {"reason": "client_queue_full"}
    before = Metrics(shapes_client).of("requests_rejected_total", **reason)
    n = MAX_IMAGES // 16 + 1
    response = shapes_client.post(URL, json={**MASKED, "n": n})
    assert_refused(response, 400, "particles", "invalid_value")
    response = shapes_client.post(URL, json={**MASKED, "n": ROOM // 20 + 1, "particles": 20})
    assert_refused(response, 429, None, "client_queue_full")
    assert response.headers["x-should-retry"] == "false"
    assert str(20 * (ROOM // 20 + 1)) in response.json()["error"]["message"]
    # the room of refused requests is free again, and images without a choice of particles count once
    assert len(edit(shapes_client, image=MASKED["image"], keep_rows=2, n=ROOM - 1)["data"]) == ROOM - 1
    now = Metrics(shapes_client)
    assert now.of("requests_rejected_total", **reason) == before + 1
    assert now.of("num_images_reserved") == 0


def test_the_log_and_the_description_know_particles(shapes_server: Server, shapes_client: httpx.Client) -> None:
    schemas = shapes_client.get("/openapi.json").json()["components"]["schemas"]
    for name in ("EditRequest", "EditForm"):
        fields = schemas[name]["properties"]
        assert "the model's default" in fields["particles"]["description"]
        assert "class" in fields
    edit(shapes_client, particles=7, n=2, **MASKED)
    wait_for(lambda: any("particles=14" in line for line in shapes_server.log), "a line of the log")
