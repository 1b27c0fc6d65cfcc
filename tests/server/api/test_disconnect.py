"""Clients that leave, by every way in, at every stage, in every manner: what they asked for is gone with them."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.server.api.routes.test_metrics import Numbers, until
from tests.support.pictures import encode, noise, text
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.sockets import post, reset, wire
from tests.support.websocket_client import connected

SLOTS = 2
LONG = 100_000  # images: minutes of work
URL = "/v1/images/generations"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
MANNERS: dict[str, Callable[[socket.socket], None]] = {
    "closes": socket.socket.close,
    "resets": reset,
    "half-closes": lambda connection: connection.shutdown(socket.SHUT_WR),
}


@pytest.fixture(scope="module")
def served(grey_directory: Path) -> Iterator[Server]:
    options = {"slots": SLOTS, "max-waiting-images": 3 * LONG, "max-images-per-request": LONG}
    with serve(grey_directory, *(f"--{name}={value}" for name, value in options.items())) as server:
        yield server


@pytest.fixture
def client(served: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=PATIENCE) as client:
        until(client, lambda now: now.of("num_images_reserved") == now.of("num_images_running") == 0)
        yield client


def by_post(connection: socket.socket, images: int) -> None:
    connection.sendall(post(URL, {"n": images}))


def by_events(connection: socket.socket, images: int) -> None:
    connection.sendall(post(URL, {"n": images, "stream": True, "partial_images": 3}))


def by_websocket(connection: socket.socket, images: int) -> None:
    head = "GET /v1/images/stream HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    connection.sendall(f"{head}sec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(4096)
    message = json.dumps({"type": "generate", "n": images}).encode()
    connection.sendall(bytes([0x81, 0x80 | len(message), 0, 0, 0, 0]) + message)


WAYS = {"post": by_post, "events": by_events, "websocket": by_websocket}


@contextmanager
def full(server: Server, client: httpx.Client) -> Iterator[None]:
    """All slots are taken by somebody who stays."""
    with connected(server.url) as painter:
        painter.send(type="generate", n=LONG)
        until(client, lambda now: now.of("num_images_running") == SLOTS)
        yield


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("way", WAYS)
def test_who_leaves_the_queue_is_forgotten(served: Server, client: httpx.Client, way: str, manner: str) -> None:
    """Round robin seats a request of one image at once: it waits only behind one of its own that was never seated."""
    with full(served, client), wire(served) as connection:
        before = Numbers(client).of("request_success_total", finished_reason="cancelled")
        WAYS[way](connection, LONG)
        until(client, lambda now: now.of("num_images_reserved") == 2 * LONG)
        MANNERS[manner](connection)
        until(client, lambda now: now.of("num_images_reserved") == LONG)
        until(client, lambda now: now.of("request_success_total", finished_reason="cancelled") == before + 1)
        until(client, lambda now: now.of("num_images_waiting") < LONG)


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("way", WAYS)
def test_who_leaves_while_painting_is_forgotten(served: Server, client: httpx.Client, way: str, manner: str) -> None:
    """What has been painted goes nowhere: nothing of it is read."""
    before = Numbers(client).of("request_success_total", finished_reason="cancelled")
    with wire(served) as connection:
        WAYS[way](connection, LONG)
        until(client, lambda now: now.of("num_images_running") == SLOTS)
        MANNERS[manner](connection)
        until(client, lambda now: now.of("num_images_reserved") == now.of("num_images_running") == 0)
    assert Numbers(client).of("request_success_total", finished_reason="cancelled") == before + 1


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("way", ["events", "websocket"])
def test_who_leaves_while_streaming_is_forgotten(served: Server, client: httpx.Client, way: str, manner: str) -> None:
    before = Numbers(client).of("request_success_total", finished_reason="cancelled")
    with wire(served) as connection:
        WAYS[way](connection, LONG)
        read = 0
        while read < 20_000:
            read += len(connection.recv(4096))
        MANNERS[manner](connection)
        until(client, lambda now: now.of("num_images_reserved") == now.of("num_images_running") == 0)
    assert Numbers(client).of("request_success_total", finished_reason="cancelled") == before + 1


@pytest.mark.parametrize("manner", MANNERS)
def test_who_leaves_while_the_answer_comes_leaves_nothing(served: Server, client: httpx.Client, manner: str) -> None:
    with wire(served) as connection:
        by_post(connection, 200)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        MANNERS[manner](connection)
    assert Numbers(client).of("num_images_reserved") == 0


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("url", [URL, "/v1/images/edits"])
def test_who_leaves_before_all_was_said_leaves_nothing(
    served: Server, client: httpx.Client, url: str, manner: str
) -> None:
    fields = {"image": text(encode(noise(7, 5))), "keep_rows": 3}
    with wire(served) as connection:
        connection.sendall(post(url, fields)[:-20])
        client.get("/healthz")
        MANNERS[manner](connection)
    assert client.post(URL, json={}).status_code == 200


def test_nothing_is_logged_of_them_but_their_lines(served: Server, client: httpx.Client) -> None:
    until(client, lambda now: now.of("websocket_connections") == 0)
    assert not [line for line in served.log if "Traceback" in line or "[error" in line]
    assert [line for line in served.log if "ended=disconnected" in line]
