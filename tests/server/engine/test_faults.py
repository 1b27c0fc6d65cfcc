"""A server whose engine is killed while it paints for everybody: each client sees a pause, then the same bytes."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scanline.server.settings import Settings
from tests.support.engines import CRASHING_SEED, FaultyOptions
from tests.support.error_answers import ONE_SENTENCE
from tests.support.in_process_server import serve_in_process
from tests.support.pictures import painted
from tests.support.running_server import serve
from tests.support.sse_reader import Event, images, named, post_for_events
from tests.support.waiting import PATIENCE, wait_for
from tests.support.websocket_client import JobMessages, connected

IMAGES = 400  # of each client: all are in work when the engine is killed
URL = "/v1/images/generations"
FIELDS = {"n": IMAGES, "seed": 11}


@dataclass
class Heard:
    """What clients were told, one of each kind, of the same images."""

    posted: dict[str, Any]
    events: list[Event]
    told: JobMessages
    undisturbed: dict[str, Any]
    while_it_starts: httpx.Response
    metrics: str


def not_ready(client: httpx.Client) -> httpx.Response | None:
    response = client.get("/readyz")
    return response if response.status_code == 503 else None


@pytest.fixture(scope="module")
def heard(grey_directory: Path) -> Iterator[Heard]:
    """Of an engine that is killed when the first of them hears of the first bytes."""
    with (
        serve(grey_directory, "--slots", "4") as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
        connected(server.url) as websocket,
        ThreadPoolExecutor() as threads,
    ):
        post = threads.submit(client.post, URL, json=FIELDS)
        stream = threads.submit(post_for_events, client, URL, partial_images=3, **FIELDS)
        websocket.send(type="generate", **FIELDS)
        while not websocket.receive().frames:
            pass
        os.kill(server.engine, signal.SIGKILL)
        ready = wait_for(lambda: not_ready(client), "a server whose engine starts")
        told = websocket.receive_until_finished(1)[0]
        posted, events = post.result().json(), stream.result()
        metrics = client.get("/metrics").text
        yield Heard(posted, events, told, client.post(URL, json=FIELDS).json(), ready, metrics)


def test_a_post_is_answered_with_the_same_bytes(heard: Heard) -> None:
    np.testing.assert_array_equal(painted(heard.posted), painted(heard.undisturbed))


def test_bits_per_dim_are_the_same(heard: Heard) -> None:
    bits = [one["bits_per_dim"] for one in heard.undisturbed["data"]]
    assert [one["bits_per_dim"] for one in heard.posted["data"]] == bits
    assert [event["bits_per_dim"] for event in named(heard.events, "completed")] == bits


def test_a_websocket_is_told_every_byte_once(heard: Heard) -> None:
    expected = painted(heard.undisturbed).reshape(IMAGES, 35)
    np.testing.assert_array_equal(heard.told.images(), expected)
    ends = [message["index"] for message in heard.told.messages if message["type"] == "image"]
    assert sorted(ends) == list(range(IMAGES))
    assert heard.told.order[-1] == "done"


def test_events_tell_every_image_once(heard: Heard) -> None:
    np.testing.assert_array_equal(images(heard.events), painted(heard.undisturbed))
    assert [event["index"] for event in named(heard.events, "completed")] == list(range(IMAGES))


def test_the_server_is_not_ready_while_the_engine_starts(heard: Heard) -> None:
    response = heard.while_it_starts
    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")


def test_the_restart_is_counted(heard: Heard) -> None:
    assert 'scanline_engine_restarts_total{model_name="grey"} 1.0' in heard.metrics
    assert 'scanline_engine_heartbeat_age_seconds{model_name="grey"}' in heard.metrics


@contextmanager
def fragile(directory: Path) -> Iterator[httpx.Client]:
    """A client of a server whose engine does not survive images of some seeds."""
    settings = Settings(models=(str(directory),), slots=4, threads=1)
    with serve_in_process(settings, FaultyOptions) as (url, _), httpx.Client(base_url=url, timeout=PATIENCE) as client:
        yield client


def test_a_deadly_request_is_not_to_be_tried_again(grey_directory: Path) -> None:
    with fragile(grey_directory) as client:
        deadly = client.post(URL, json={"seed": CRASHING_SEED})
        error = deadly.json()["error"]
        assert (deadly.status_code, error["type"], error["code"]) == (500, "server_error", "engine_failed")
        assert deadly.headers["x-should-retry"] == "false"
        assert ONE_SENTENCE.fullmatch(error["message"])
        assert client.post(URL, json={"seed": 5}).status_code == 200
