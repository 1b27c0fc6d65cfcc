"""`guidance` of generations, edits, events and the websocket, at a model with defaults of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from scanline.model.inference import Model, load
from scanline.model.sampling.messages import Ready
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support import shapes
from tests.support.pictures import encode, painted, text
from tests.support.server.error_answers import assert_error, assert_refused
from tests.support.server.json_requests import (
    CLASSIFICATIONS,
    CLEAN,
    EDITS,
    FILES,
    GENERATIONS,
    HOLE,
    IMAGE,
    LIKELIHOODS,
    MASKED,
    NOISY,
    post,
)
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import NO_DELAY, arguments
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

SLOTS, WAITING, MAX_IMAGES = 7, 13, 24  # an odd number of slots: one of them stays free among guided images
ROOM = SLOTS + WAITING
DEFAULTS = {"class": "any", "guidance": 1.5, "temperature": 0.9, "particles": 4}
STAR = {"class": "star", "seed": 7, "temperature": 0.8}
WRONG = [{"guidance": 0.5}, {"guidance": 11}, {"guidance": "2"}, {"guidance": 2, "class": "none"}]
NO_JSON = [{"guidance": float("nan")}, {"guidance": float("inf")}]  # httpx does not send it


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = shapes.evaluate(shapes.save(tmp_path_factory.mktemp("models") / "guided", shapes.GUIDED))
    (directory / "generation_config.json").write_text(json.dumps(DEFAULTS))
    return directory


@pytest.fixture(scope="module")
def model(directory: Path) -> Model:
    return load(directory, device="cpu")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[Server]:
    limits = {"slots": SLOTS, "max-waiting-images": WAITING, "max-images-per-request": MAX_IMAGES, "client-share": 1}
    with serve(directory, *arguments({**limits, **NO_DELAY})) as server:
        yield server


def test_guided_images_are_those_of_the_library_on_every_route(
    server: Server, client: httpx.Client, model: Model
) -> None:
    fields = {**STAR, "guidance": 2.5, "n": 3}
    expected = model.sample(3, class_name="star", seed=7, guidance=2.5, temperature=0.8)
    assert (expected.array != model.sample(3, class_name="star", seed=7, guidance=1, temperature=0.8).array).any()
    answer = post(client, GENERATIONS, **fields)
    np.testing.assert_array_equal(painted(answer), expected.array)
    assert [one["bits_per_dim"] for one in answer["data"]] == pytest.approx(expected.bits_per_dim.tolist(), rel=1e-6)
    np.testing.assert_array_equal(images(post_for_events(client, GENERATIONS, **fields)), expected.array)
    with connected(server.url) as websocket:
        job = websocket.paint(type="generate", **fields)
        np.testing.assert_array_equal(job.images(), expected.array.reshape(3, 35))
        edits = websocket.paint(type="complete", **fields, **MASKED).images()
    expected = model.complete(
        IMAGE, mask=HOLE == 255, n=3, class_name="star", seed=7, guidance=2.5, temperature=0.8, particles=1
    )
    np.testing.assert_array_equal(edits, expected.array.reshape(3, 35))
    for more in ({}, {"particles": 1}):
        np.testing.assert_array_equal(painted(post(client, EDITS, **fields, **MASKED, **more)), expected.array)
    form = client.post(EDITS, files=FILES, data={name: str(value) for name, value in fields.items()})
    np.testing.assert_array_equal(painted(form.json()), expected.array)


def test_a_noisy_picture_is_classified_to_within_a_tolerance(client: httpx.Client, model: Model) -> None:
    """Like guidance, it takes logits of all values."""
    picture = {"image": text(encode(NOISY))}
    (one,) = post(client, CLASSIFICATIONS, **picture)["data"]
    expected, exact = (model.classify(image).bits[0] / 35 for image in (NOISY, CLEAN))
    assert list(one["bits_per_dim"].values()) == pytest.approx(expected.tolist(), rel=1e-6)
    assert (expected < exact / 2).all()
    (one,) = post(client, LIKELIHOODS, **picture, clean="auto", **{"class": "circle"})["data"]
    assert one["bits_per_dim"] == pytest.approx(exact[0], rel=1e-6)


def test_a_request_that_says_nothing_gets_the_models_defaults_and_is_told_them(
    server: Server, client: httpx.Client
) -> None:
    said = {name: value for name, value in DEFAULTS.items() if name != "particles"}
    answers = [post(client, GENERATIONS, n=3, seed=7, **fields) for fields in ({}, said)]
    assert answers[0]["data"] == answers[1]["data"]
    assert (answers[0]["guidance"], answers[0]["temperature"]) == (1.5, 0.9)
    assert all(image["class"] for image in answers[0]["data"])
    with connected(server.url) as websocket:
        job = websocket.paint(type="generate", n=3, seed=7)
    np.testing.assert_array_equal(job.images(), painted(answers[0]).reshape(3, 35))
    (none,) = post(client, GENERATIONS, **{"class": "none"})["data"]
    assert none["class"] is None
    edit = post(client, EDITS, **MASKED, **{"class": None})
    assert (edit["guidance"], edit["data"][0]["class"]) == (1.0, None)
    card = client.get("/v1/models/guided").json()
    assert (card["defaults"], card["max_guidance"]) == (DEFAULTS, 10)


def test_guidance_that_cannot_be_had_is_refused(server: Server, client: httpx.Client) -> None:
    with connected(server.url) as websocket:
        for fields in (*WRONG, *NO_JSON):
            for kind, more in (("generate", {}), ("complete", MASKED)):
                job = websocket.paint(type=kind, id=kind, **{**STAR, **more, **fields})
                assert_error({"error": job.messages[-1]["error"]}, "guidance", "invalid_value")
    for fields in WRONG:
        for url, more in ((GENERATIONS, {}), (GENERATIONS, {"stream": True}), (EDITS, MASKED)):
            assert_refused(client.post(url, json={**STAR, **fields, **more}), 400, "guidance", "invalid_value")
    for wrong in ("strong", "nan", "11"):
        response = client.post(EDITS, files=FILES, data={"class": "star", "guidance": wrong})
        assert_refused(response, 400, "guidance", "invalid_value")
    both = {**STAR, **MASKED, "guidance": 2, "particles": 4}
    assert_refused(client.post(EDITS, json=both), 400, "particles", "invalid_value")


def test_a_server_of_one_slot_cannot_guide(directory: Path) -> None:
    settings = Settings(models=(str(directory),))
    models = served_models(settings)
    models.default.engine.ready = Ready(parameters=1, slots=1, device="cpu", state_bytes=1, backend="none")
    answer = TestClient(build(settings, models)).post(GENERATIONS, json={**STAR, "guidance": 2})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "guidance", "guidance_not_supported")


def test_the_limits_count_a_guided_image_twice(server: Server, client: httpx.Client) -> None:
    response = client.post(GENERATIONS, json={**STAR, "guidance": 2, "n": MAX_IMAGES // 2 + 1})
    assert_refused(response, 400, "guidance", "invalid_value")
    assert f"take {MAX_IMAGES + 2} slots, two each unless it is 1, above the limit of {MAX_IMAGES}" in response.text
    response = client.post(GENERATIONS, json={**STAR, "guidance": 2, "n": ROOM // 2 + 1})
    assert_refused(response, 429, None, "client_queue_full")
    assert f"{ROOM + 2} images, each guided image counted as two, " in response.text
    # the room of refused requests is free again
    assert len(post(client, GENERATIONS, **STAR, guidance=3.75, n=ROOM // 2)["data"]) == ROOM // 2
    assert Metrics(client).of("num_images_reserved") == 0
    wait_for(lambda: any("guidance=3.75" in line for line in server.log), "a line of the log")
