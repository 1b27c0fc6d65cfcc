"""A client that disconnects gives its room back: on every transport, at every stage, however it closes."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from websockets.frames import Opcode

from tests.support.server.frames import frame, open_websocket
from tests.support.server.json_requests import MASKED
from tests.support.server.metrics_reader import Metrics, wait_for_metrics, wait_until_idle
from tests.support.server.routes import EDITS, GENERATIONS
from tests.support.server.running_server import Server
from tests.support.server.shared_servers import LIMITED_SLOTS, LONG
from tests.support.server.sockets import CLOSES, open_connection, post_request, reset
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for


def send_post(connection: socket.socket, images: int) -> None:
    connection.sendall(post_request(GENERATIONS, {"n": images}))


def send_event_stream(connection: socket.socket, images: int) -> None:
    connection.sendall(post_request(GENERATIONS, {"n": images, "stream": True, "partial_images": 3}))


def send_websocket_job(connection: socket.socket, images: int) -> None:
    open_websocket(connection)
    connection.sendall(frame(Opcode.TEXT, json.dumps({"type": "generate", "n": images}).encode()))


TRANSPORTS = {"post": send_post, "events": send_event_stream, "websocket": send_websocket_job}


def ended(metrics: Metrics, reason: str) -> float:
    return metrics.of("request_success_total", operation="paint", finished_reason=reason)


@contextmanager
def all_slots_taken(server: Server, client: httpx.Client) -> Iterator[None]:
    """Another client, which stays connected, has an image in every slot."""
    with connected(server.url) as websocket:
        websocket.send(type="generate", n=LONG)
        wait_for_metrics(client, lambda now: now.of("num_images_running") == LIMITED_SLOTS)
        yield


@pytest.mark.parametrize(("transport", "close"), [("post", "half-close"), ("events", "close"), ("websocket", "reset")])
def test_a_client_that_disconnects_while_queued_gives_its_room_back(
    limited_server: Server, limited_client: httpx.Client, transport: str, close: str
) -> None:
    """Round robin gives a request of one image a slot at once; only a long one waits, behind its own first images."""
    with all_slots_taken(limited_server, limited_client), open_connection(limited_server) as connection:
        expected = ended(Metrics(limited_client), "cancelled") + 1
        TRANSPORTS[transport](connection, LONG)
        wait_for_metrics(limited_client, lambda now: now.of("num_images_reserved") > LONG)
        CLOSES[close](connection)

        def has_left(now: Metrics) -> bool:
            """The images that wait are those of the engine's last report."""
            waiting = now.of("num_images_waiting") < LONG
            return now.of("num_images_reserved") <= LONG and waiting and ended(now, "cancelled") == expected

        wait_for_metrics(limited_client, has_left)


@pytest.mark.parametrize(
    ("transport", "close"), [("post", "reset"), ("events", "half-close"), ("websocket", "half-close")]
)
def test_a_client_that_disconnects_while_painting_gives_its_room_back(
    limited_server: Server, limited_client: httpx.Client, transport: str, close: str
) -> None:
    before = ended(Metrics(limited_client), "cancelled")
    with open_connection(limited_server) as connection:
        TRANSPORTS[transport](connection, LONG)
        if transport != "post":  # a stream, of which some has been read
            read = 0
            while read < 20_000:
                read += len(connection.recv(4096))
        wait_for_metrics(limited_client, lambda now: now.of("num_images_running") == LIMITED_SLOTS)
        CLOSES[close](connection)
        wait_until_idle(limited_client)
    assert ended(Metrics(limited_client), "cancelled") == before + 1


def test_a_disconnect_during_the_response_cancels_nothing(limited_server: Server, limited_client: httpx.Client) -> None:
    """Its images are painted; the server stays silent about the connection and counts the request as finished."""
    before = Metrics(limited_client)
    with open_connection(limited_server, receive_buffer=4096) as connection:
        send_post(connection, 1000)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        reset(connection)
    expected = ended(before, "finished") + 1
    now = wait_for_metrics(limited_client, lambda now: ended(now, "finished") == expected)
    assert ended(now, "cancelled") == ended(before, "cancelled")


@pytest.mark.parametrize(("url", "close"), [(GENERATIONS, "half-close"), (EDITS, "reset")])
def test_a_client_that_disconnects_during_its_request_has_nothing_painted(
    limited_server: Server, limited_client: httpx.Client, url: str, close: str
) -> None:
    """The server knows of the request, since it logs it, and neither accepts nor counts an image."""
    before = Metrics(limited_client)
    fields = {"image": MASKED["image"], "keep_rows": 3}
    with open_connection(limited_server) as connection:
        connection.sendall(post_request(url, fields, x_request_id=f"unsent-{close}")[:-20])
        assert Metrics(limited_client).of("num_images_reserved") == 0
        CLOSES[close](connection)
        wait_for(lambda: any(f"request_id=unsent-{close}" in line for line in limited_server.log), "a log line")
    now = wait_until_idle(limited_client)
    for name in ("request_success_total", "images_total", "generation_tokens_total"):
        assert now.of(name) == before.of(name)
