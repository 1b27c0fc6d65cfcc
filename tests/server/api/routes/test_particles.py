"""`particles` of edits, events and the websocket: completions that fit the known pixels on both sides of a hole."""

import httpx
import numpy as np
import pytest

from scanline.model.inference import Model
from scanline.server.api.errors import from_exception
from scanline.server.api.payload.partial_images import UNPAINTED
from scanline.server.engine.job import EngineFailedError
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.json_requests import EDITS, FILES, GENERATIONS, HOLE, IMAGE, MASKED, post
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server
from tests.support.server.sse_reader import images, named, post_for_events
from tests.support.server.websocket_client import connected
from tests.support.shapes import MAX_IMAGES, ROOM, SLOTS
from tests.support.waiting import wait_for

MEASURES = ("bits_per_dim", "evidence_bits", "effective_particles")


def measures(data: list[dict]) -> list[list[float | None]]:
    return [[one[name] for name in MEASURES] for one in data]


@pytest.mark.parametrize("fields", [{}, {"particles": 5}, {"particles": SLOTS}], ids=str)
def test_completions_are_those_of_the_library_on_every_route(
    shapes_server: Server, shapes_client: httpx.Client, shapes_model: Model, fields: dict
) -> None:
    body = {"n": 3, "seed": 4, "temperature": 0.9, **fields}
    answer = post(shapes_client, EDITS, **MASKED, **body)
    expected = shapes_model.complete(IMAGE, mask=HOLE == 255, n=3, seed=4, temperature=0.9, **fields)
    np.testing.assert_array_equal(painted(answer), expected.array)
    figures = zip(expected.bits_per_dim, expected.evidence_bits, expected.effective_particles, strict=True)
    np.testing.assert_allclose(measures(answer["data"]), list(figures), rtol=1e-6)
    events = post_for_events(shapes_client, EDITS, **MASKED, **body)
    np.testing.assert_array_equal(images(events), expected.array)
    with connected(shapes_server.url) as websocket:
        job = websocket.paint(type="complete", **MASKED, **body)
    np.testing.assert_array_equal(job.images(), expected.array.reshape(3, 35))
    for ended in (named(events, "completed"), [one for one in job.messages if one["type"] == "image"]):
        assert measures(sorted(ended, key=lambda one: one["index"])) == measures(answer["data"])
    form = shapes_client.post(EDITS, files=FILES, data={name: str(value) for name, value in body.items()})
    assert form.json()["data"] == answer["data"]


def test_partial_images_with_pixels_of_one_particle_say_that_they_are_provisional(shapes_client: httpx.Client) -> None:
    found = []
    for seed in range(20):  # how far an image is when its partial images are cut is a matter of time
        events = post_for_events(shapes_client, EDITS, partial_images=3, seed=seed, particles=8, **MASKED)
        partial = named(events, "partial_image")
        assert [event["partial_image_index"] for event in partial] == [0, 1, 2]
        pictures, whole = images(events, "partial_image"), images(events)[0]
        for event, picture in zip(partial, pictures, strict=True):
            np.testing.assert_array_equal(picture[HOLE == 255], IMAGE[HOLE == 255])
            differs = (picture != whole) & (picture != UNPAINTED)
            found.append((event.get("provisional"), bool(differs.any())))
        if (True, True) in found:
            break
    assert set(found) <= {(None, False), (True, False), (True, True)}
    assert (True, True) in found


def test_particles_that_cannot_be_had_are_refused(shapes_server: Server, shapes_client: httpx.Client) -> None:
    with connected(shapes_server.url) as websocket:
        for particles in (0, 65, "8", True, 1.5, [4], {}, 10**30):
            response = shapes_client.post(EDITS, json={**MASKED, "particles": particles})
            assert_refused(response, 400, "particles", "invalid_value")
            assert response.json()["error"]["message"].startswith("particles must be a whole number from 1 to 64, not ")
            job = websocket.paint(type="complete", id=1, particles=particles, **MASKED)
            assert_error({"error": job.messages[-1]["error"]}, "particles", "invalid_value")
        expected = f"This server has {SLOTS} slots, and an image of 64 particles needs one for each."
        job = websocket.paint(type="complete", id=1, particles=64, **MASKED)
        assert job.messages[-1]["error"]["message"] == expected
    response = shapes_client.post(EDITS, json={**MASKED, "particles": 64, "stream": True})
    assert_refused(response, 400, "particles", "invalid_value")
    assert response.json()["error"]["message"] == expected
    response = shapes_client.post(EDITS, files=FILES, data={"particles": "many"})
    assert_refused(response, 400, "particles", "invalid_value")
    response = shapes_client.post(EDITS, json={"image": MASKED["image"], "particles": 4})
    assert_refused(response, 400, "mask", "missing_parameter")
    response = shapes_client.post(GENERATIONS, json={"particles": 4})
    assert_refused(response, 400, "particles", "unknown_parameter")


def test_an_engine_that_has_fewer_slots_by_now_is_the_same_error() -> None:
    for code, param in (("too_many_particles", "particles"), ("guidance_not_supported", "guidance")):
        error = from_exception(EngineFailedError("This server has fewer slots.", code))
        assert (error.status, error.body["error"]["param"]) == (400, param)


def test_the_limits_count_every_particle(shapes_server: Server, shapes_client: httpx.Client) -> None:
    response = shapes_client.post(EDITS, json={**MASKED, "n": MAX_IMAGES // 16 + 1})
    assert_refused(response, 400, "particles", "invalid_value")
    response = shapes_client.post(EDITS, json={**MASKED, "n": ROOM // 20 + 1, "particles": 20})
    assert_refused(response, 429, None, "client_queue_full")
    assert str(20 * (ROOM // 20 + 1)) in response.json()["error"]["message"]
    # the room of refused requests is free again, and images without a choice of particles count once
    images = post(shapes_client, EDITS, image=MASKED["image"], keep_rows=2, n=ROOM - 1)["data"]
    assert [one["effective_particles"] for one in images] == [1.0] * (ROOM - 1)
    assert Metrics(shapes_client).of("num_images_reserved") == 0
    post(shapes_client, EDITS, particles=7, n=2, **MASKED)
    wait_for(lambda: any("particles=14" in line for line in shapes_server.log), "a line of the log")
