"""A full queue refuses more work, and accepts it again as soon as there is room."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.shared_servers import LONG
from tests.support.server.websocket_client import WebsocketClient, connected

URL = "/v1/images/generations"
MORE = 10_000  # images: as many are not painted in the moments between two requests


@pytest.fixture
def client(full_queue_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=full_queue_server.url, timeout=PATIENCE) as client:
        wait_until_idle(client)
        yield client


@contextmanager
def full_queue(server: Server) -> Iterator[WebsocketClient]:
    """A websocket whose job takes up all room at first, and most of it until it closes."""
    with connected(server.url) as websocket:
        websocket.send(type="generate", id="full", n=LONG)
        websocket.receive()
        yield websocket


def wait_for_room(client: httpx.Client) -> None:
    """Waits until all room is free."""
    wait_until_idle(client)
    assert client.post(URL, json={}).status_code == 200


def test_a_full_queue_refuses_more_and_a_cancelled_job_gives_its_room_back(
    full_queue_server: Server, client: httpx.Client
) -> None:
    """Streams before they begin, edits and likelihoods before their pictures are decoded."""
    with full_queue(full_queue_server) as websocket:
        response = client.post(URL, json={"n": MORE})
        assert_refused(response, 429, None, "queue_full")
        assert int(response.headers["retry-after"]) > 0
        assert_refused(client.post(URL, json={"stream": True, "n": MORE}), 429, None, "queue_full")
        for url in ("/v1/images/edits", "/v1/images/likelihoods"):
            response = client.post(url, json={"image": [text(b"no picture")] * MORE})
            assert_refused(response, 429, None, "queue_full")
        websocket.send(type="generate", id="more", n=MORE)
        while "more" not in websocket.jobs:
            websocket.receive()
        assert websocket.jobs["more"].messages[0]["error"]["code"] == "queue_full"
        websocket.send(type="cancel", id="full")
        wait_for_room(client)


def test_a_refused_request_gives_its_room_back(client: httpx.Client) -> None:
    small = encode(noise(3, 3))
    response = client.post("/v1/images/edits", json={"image": text(small), "n": LONG, "keep_rows": 1})
    assert_refused(response, 400, "image", "wrong_size")
    assert Metrics(client).of("num_images_reserved") == 0
    assert client.post(URL, json={}).status_code == 200
    assert_refused(client.post(URL, json={"n": LONG + 1}), 400, "n", "invalid_value")
