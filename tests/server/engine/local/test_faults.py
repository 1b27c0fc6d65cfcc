"""A server whose engine is killed while it paints: each client gets the same bytes after a pause."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.engine.engines import CRASHING_SEED, FaultyOptions
from tests.support.pictures import painted
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.in_process_server import serve_in_process
from tests.support.server.sse_reader import Event, images, named, post_for_events
from tests.support.server.websocket_client import JobMessages, connected
from tests.support.waiting import PATIENCE, wait_for

IMAGES = 150  # of each client: all are in work when the engine is killed
URL = "/v1/images/generations"
FIELDS = {"n": IMAGES, "seed": 11}


@dataclass
class Responses:
    """What one client of each kind received of the same images."""

    posted: dict[str, Any]
    events: list[Event]
    job: JobMessages
    undisturbed: dict[str, Any]
    while_it_starts: httpx.Response
    metrics: str


def not_ready(client: httpx.Client) -> httpx.Response | None:
    response = client.get("/readyz")
    return response if response.status_code == 503 else None


@pytest.fixture(scope="module")
def faulty_server(grey_directory: Path) -> Iterator[tuple[str, EngineClient]]:
    """A server whose engine does not survive images of some seeds: its address and its engine client."""
    settings = Settings(models=(str(grey_directory),), slots=4, threads=1)
    with serve_in_process(settings, FaultyOptions) as served:
        yield served


@pytest.fixture(scope="module")
def responses(faulty_server: tuple[str, EngineClient]) -> Iterator[Responses]:
    """The engine is killed when the first client has received the first bytes."""
    url, engine = faulty_server
    with (
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
        connected(url) as websocket,
        ThreadPoolExecutor() as threads,
    ):
        post = threads.submit(client.post, URL, json=FIELDS)
        stream = threads.submit(post_for_events, client, URL, partial_images=3, **FIELDS)
        websocket.send(type="generate", **FIELDS)
        while not websocket.receive().frames:
            pass
        assert engine.process is not None
        os.kill(engine.process.process.pid, signal.SIGKILL)
        ready = wait_for(lambda: not_ready(client), "a server whose engine starts")
        job = websocket.receive_until_finished(1)[0]
        posted, events = post.result().json(), stream.result()
        metrics = client.get("/metrics").text
        yield Responses(posted, events, job, client.post(URL, json=FIELDS).json(), ready, metrics)


def test_a_post_request_gets_the_same_bytes_and_bits(responses: Responses) -> None:
    np.testing.assert_array_equal(painted(responses.posted), painted(responses.undisturbed))
    bits = [one["bits_per_dim"] for one in responses.undisturbed["data"]]
    assert [one["bits_per_dim"] for one in responses.posted["data"]] == bits
    assert [event["bits_per_dim"] for event in named(responses.events, "completed")] == bits


def test_a_stream_and_a_websocket_receive_everything_once(responses: Responses) -> None:
    np.testing.assert_array_equal(images(responses.events), painted(responses.undisturbed))
    assert [event["index"] for event in named(responses.events, "completed")] == list(range(IMAGES))
    expected = painted(responses.undisturbed).reshape(IMAGES, 35)
    np.testing.assert_array_equal(responses.job.images(), expected)
    ends = [message["index"] for message in responses.job.messages if message["type"] == "image"]
    assert sorted(ends) == list(range(IMAGES))
    assert responses.job.order[-1] == "done"


def test_the_restart_is_exposed_by_readyz_and_metrics(responses: Responses) -> None:
    response = responses.while_it_starts
    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
    assert 'scanline_engine_restarts_total{model_name="grey"} 1.0' in responses.metrics
    assert 'scanline_engine_heartbeat_age_seconds{model_name="grey"}' in responses.metrics


def test_a_request_that_crashes_the_engine_must_not_be_retried(faulty_server: tuple[str, EngineClient]) -> None:
    with httpx.Client(base_url=faulty_server[0], timeout=PATIENCE) as client:
        crashing = client.post(URL, json={"seed": CRASHING_SEED})
        error = crashing.json()["error"]
        assert (crashing.status_code, error["type"], error["code"]) == (500, "server_error", "engine_failed")
        assert crashing.headers["x-should-retry"] == "false"
        assert ONE_SENTENCE.fullmatch(error["message"])
        assert client.post(URL, json={"seed": 5}).status_code == 200
