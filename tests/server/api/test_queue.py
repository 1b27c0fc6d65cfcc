"""A full queue refuses more work, and has room again as soon as those who filled it leave."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.support.error_answers import assert_refused
from tests.support.patience import PATIENCE, wait_for
from tests.support.pictures import encode, noise, text
from tests.support.running_server import Server, serve
from tests.support.websocket_client import connected

FULL = 100_000  # images: minutes of work in one slot
URL = "/v1/images/generations"


@pytest.fixture(scope="module")
def narrow(grey_directory: Path) -> Iterator[Server]:
    """One slot, and a queue as long as the longest request."""
    options = {"slots": 1, "max-waiting-images": FULL - 1, "max-images-per-request": FULL}
    with serve(grey_directory, *(f"--{name}={value}" for name, value in options.items())) as server:
        yield server


@pytest.fixture
def client(narrow: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=narrow.url, timeout=PATIENCE) as client:
        yield client


def until(client: httpx.Client, status: int) -> httpx.Response:
    """Asks for one image until the answer has that status."""

    def answer() -> httpx.Response | None:
        response = client.post(URL, json={})
        return response if response.status_code == status else None

    return wait_for(answer, f"an answer with status {status}")


def post(server: Server, body: bytes, more_head: str = "") -> socket.socket:
    """A connection on which a request has been sent and no answer is awaited."""
    address = httpx.URL(server.url)
    connection = socket.create_connection((address.host, address.port))
    head = f"POST {URL} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.replace("\r\n\r\n", f"\r\n{more_head}\r\n").encode() + body)
    return connection


def test_a_full_queue_refuses_with_a_time_to_come_back(narrow: Server, client: httpx.Client) -> None:
    with connected(narrow.url) as painter:
        painter.send(type="generate", n=FULL)
        painter.hear()
        response = client.post(URL, json={})
    assert_refused(response, 429, None, "queue_full")
    assert int(response.headers["retry-after"]) > 0
    until(client, 200)


@pytest.mark.parametrize("url", ["/v1/images/edits", "/v1/images/likelihoods"])
def test_a_full_queue_refuses_before_it_looks_at_pictures(narrow: Server, client: httpx.Client, url: str) -> None:
    with connected(narrow.url) as painter:
        painter.send(type="generate", n=FULL)
        painter.hear()
        assert_refused(client.post(url, json={"image": text(b"no picture")}), 429, None, "queue_full")
    until(client, 200)


def test_a_full_queue_refuses_a_websockets_job_too(narrow: Server, client: httpx.Client) -> None:
    with connected(narrow.url) as painter:
        painter.send(type="generate", id="full", n=FULL)
        painter.hear()
        painter.send(type="generate", id="more")
        while "more" not in painter.jobs:
            painter.hear()
        assert painter.jobs["more"].messages[0]["error"]["code"] == "queue_full"
    until(client, 200)


def test_a_full_queue_refuses_a_stream_before_it_begins(narrow: Server, client: httpx.Client) -> None:
    with connected(narrow.url) as painter:
        painter.send(type="generate", n=FULL)
        painter.hear()
        assert_refused(client.post(URL, json={"stream": True}), 429, None, "queue_full")
    until(client, 200)


def test_more_than_the_queue_can_ever_hold_is_refused(client: httpx.Client) -> None:
    response = client.post(URL, json={"n": FULL + 1})
    assert_refused(response, 400, "n", "invalid_value")


def test_a_post_that_is_closed_leaves_its_room(narrow: Server, client: httpx.Client) -> None:
    with closing(post(narrow, b'{"n": %d}' % FULL)):
        until(client, 429)
    assert until(client, 200).json()["data"][0]["index"] == 0


def test_a_stream_that_is_closed_leaves_its_room(narrow: Server, client: httpx.Client) -> None:
    with closing(post(narrow, b'{"stream": true, "partial_images": 3, "n": %d}' % FULL)):
        until(client, 429)
    assert until(client, 200).json()["data"][0]["index"] == 0


def test_a_websocket_that_is_closed_leaves_its_room(narrow: Server, client: httpx.Client) -> None:
    with connected(narrow.url) as painter:
        painter.send(type="generate", n=FULL)
        until(client, 429)
    assert until(client, 200).json()["data"][0]["index"] == 0


def test_a_websocket_that_is_torn_leaves_its_room(narrow: Server, client: httpx.Client) -> None:
    with connected(narrow.url) as painter:
        painter.send(type="generate", n=FULL)
        until(client, 429)
        painter.socket.socket.shutdown(socket.SHUT_RDWR)
        until(client, 200)


def test_a_cancelled_job_leaves_its_room(narrow: Server, client: httpx.Client) -> None:
    with connected(narrow.url) as painter:
        painter.send(type="generate", id="a", n=FULL)
        until(client, 429)
        painter.send(type="cancel", id="a")
        until(client, 200)


def test_a_refused_picture_leaves_its_room(client: httpx.Client) -> None:
    small = encode(noise(3, 3))
    response = client.post("/v1/images/edits", json={"image": text(small), "n": FULL, "keep_rows": 1})
    assert_refused(response, 400, "image", "wrong_size")
    until(client, 200)


def test_nothing_is_logged_of_a_client_that_left(narrow: Server, client: httpx.Client) -> None:
    with closing(post(narrow, b'{"n": %d}' % FULL)):
        until(client, 429)
    until(client, 200)
    assert not [line for line in narrow.log if "Traceback" in line or "[error" in line]
