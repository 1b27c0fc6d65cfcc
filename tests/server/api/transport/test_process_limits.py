"""Budgets of the process: connections, bytes in arrival and unread bytes, and one client's share of each.

test_budgets.py holds the limit of all clients together. Clients are told apart by their addresses, of which
127.0.0.0/8 has many.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.frames import Opcode

from tests.support.server import sockets
from tests.support.server.error_answers import assert_refused
from tests.support.server.frames import frame, open_websocket
from tests.support.server.metrics_reader import Metrics, wait_for_metrics
from tests.support.server.routes import GENERATIONS
from tests.support.server.running_server import Server
from tests.support.server.shared_servers import NO_DELAY, serve_with
from tests.support.server.sockets import answer_to, open_connection, post_request, response_on
from tests.support.waiting import wait_for

GET = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n\r\n"
CONNECTIONS, SHARE = 20, 0.5
ONE = "127.0.0.2"  # the address of the client that takes more than its share
BODY = (
    b"POST /v1/images/edits HTTP/1.1\r\nhost: [::1]\r\n"
    b"content-type: application/json\r\ncontent-length: 15000000\r\n\r\n"
)


@pytest.fixture(scope="module")
def small_server(grey_directory: Path) -> Iterator[Server]:
    """Little of everything."""
    limits = {"max-connections": CONNECTIONS, "max-arriving-bytes": 2_000_000, "max-unread-bytes": 400_000}
    with serve_with(grey_directory, {"slots": 4, "client-share": SHARE, **limits, **NO_DELAY}) as server:
        yield server


@pytest.fixture
def client(small_server: Server) -> Iterator[httpx.Client]:
    """Another client than those of the tests."""
    with small_server.client(transport=httpx.HTTPTransport(local_address="127.0.0.9")) as client:
        yield client


def assert_refused_for_now(response: httpx.Response, code: str) -> None:
    __tracebackhide__ = True
    assert_refused(response, 503, None, code)
    assert response.headers["retry-after"] == "2"
    assert len(response.headers["x-request-id"]) == 32


@contextmanager
def open_many(server: Server, count: int, receive_buffer: int = 0) -> Iterator[list[socket.socket]]:
    """Connections of one client."""
    with ExitStack() as stack:
        yield [stack.enter_context(open_connection(server, receive_buffer, ONE)) for _ in range(count)]


def answered(server: Server, source: str) -> bool:
    """Whether a new connection of that client is served."""
    return answer_to(server, GET, source).status_code == 200


def test_one_client_has_a_share_of_all_connections(small_server: Server, client: httpx.Client) -> None:
    """One beyond it is refused, and closed even if its client does not close."""
    before = Metrics(client).errors("too_many_connections")
    with open_many(small_server, int(CONNECTIONS * SHARE)):
        with open_connection(small_server, source=ONE) as refused:
            assert_refused_for_now(response_on(refused), "too_many_connections")
            with pytest.raises(ConnectionError):  # noqa: PT012
                while True:
                    refused.sendall(b"x")
                    time.sleep(0.05)
        assert answered(small_server, "127.0.0.3")
        assert Metrics(client).errors("too_many_connections") == before + 1
    wait_for(lambda: answered(small_server, ONE), "room for connections")


def assert_received(response: httpx.Response) -> None:
    """The body was read to its end, and then refused for what is in it: a text that is longer than a picture."""
    assert (response.status_code, response.json()["error"]["code"]) == (400, "json_too_complex")


def wait_for_arriving(client: httpx.Client, size: int) -> None:
    """Wait until the server has so many bytes of what is not complete, so that they came before what is sent next."""
    wait_for_metrics(client, lambda now: now.of("connection_arriving_bytes") >= size)


def test_bodies_beyond_a_share_wait_and_are_refused(small_server: Server, client: httpx.Client) -> None:
    with open_many(small_server, 2) as (first, second):
        first.sendall(BODY + b" " * 900_000)
        wait_for_arriving(client, 900_000)
        second.sendall(BODY + b" " * 300_000)
        assert_refused_for_now(response_on(second), "too_much_arriving")
        large = {"user": "x" * 600_000}
        assert_received(client.post(GENERATIONS, json=large))
        first.close()
        assert_received(answer_to(small_server, post_request(GENERATIONS, large, connection="close"), ONE))


def test_a_body_that_waited_for_room_is_received_once_there_is_some(small_server: Server, client: httpx.Client) -> None:
    with open_many(small_server, 2) as (first, second):
        first.sendall(BODY + b" " * 900_000)
        wait_for_arriving(client, 900_000)
        second.sendall(post_request(GENERATIONS, {"user": "x" * 400_000}, connection="close"))
        time.sleep(0.5)
        first.close()
        assert_received(response_on(second))


def test_an_unfinished_message_counts_as_a_body_does(small_server: Server, client: httpx.Client) -> None:
    before = Metrics(client).errors("too_much_arriving")
    message = frame(Opcode.TEXT, b" " * 700_000)
    with open_many(small_server, 2) as (first, second):
        for connection in (first, second):
            open_websocket(connection)
        first.sendall(message[:650_000])
        wait_for_arriving(client, 600_000)
        second.sendall(message[:400_000])
        data = sockets.read_until_closed(second)
    assert b'"too_much_arriving"' in data
    assert b"\x03\xf5Too many bytes" in data  # a close frame of code 1013
    assert Metrics(client).errors("too_much_arriving") == before + 1


def test_a_client_that_reads_nothing_on_many_connections_loses_some(small_server: Server, client: httpx.Client) -> None:
    before = Metrics(client).errors("too_much_unread")
    with open_many(small_server, 8, receive_buffer=4096) as connections:
        for connection in connections:
            connection.sendall(sockets.GET_ASSET)
        wait_for(lambda: Metrics(client).errors("too_much_unread") > before, "an aborted connection")
        # another client loses nothing
        assert client.get(f"/assets/{sockets.ASSET.name}").content == sockets.ASSET.read_bytes()
