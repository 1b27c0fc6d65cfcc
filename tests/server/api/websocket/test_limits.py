"""Limits on websockets: how many, how many jobs each, how many messages and how large."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.frames import Opcode

from tests.support.server.error_answers import ONE_SENTENCE, answer_of
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.shared_servers import LONG, MAX_BODY_BYTES, MAX_JOBS, MAX_MESSAGES, MAX_WEBSOCKETS
from tests.support.server.sockets import frame, open_connection
from tests.support.server.websocket_client import NOT_READING, WebsocketClient, connected


@pytest.fixture
def client(limited_server: Server) -> Iterator[httpx.Client]:
    """The server is idle before and after each test."""
    with httpx.Client(base_url=limited_server.url, timeout=PATIENCE) as client:
        wait_until_free(client)
        yield client
        wait_until_free(client)


def wait_until_free(client: httpx.Client) -> None:
    names = ("num_images_reserved", "num_images_running", "websocket_connections")
    wait_for_metrics(client, lambda now: all(now.of(name) == 0 for name in names))


def receive_until_closed(websocket: WebsocketClient) -> ConnectionClosedError:
    """Receives until the server closes the connection, and returns how it did."""
    try:
        while True:
            websocket.receive()
    except ConnectionClosedError as caught:
        return caught


def test_one_websocket_too_many_is_refused_before_it_opens(limited_server: Server, client: httpx.Client) -> None:
    with ExitStack() as open_ones:
        for _ in range(MAX_WEBSOCKETS):
            open_ones.enter_context(connected(limited_server.url))
        with pytest.raises(InvalidStatus) as refused, connected(limited_server.url):
            pass
        response = answer_of(refused.value)
        assert (response.status_code, response.headers["retry-after"]) == (503, "2")
        error = response.json()["error"]
        assert (error["code"], error["type"]) == ("too_many_websockets", "server_error")
        assert ONE_SENTENCE.fullmatch(error["message"])
        assert client.post("/v1/images/generations", json={}).status_code == 200
    wait_until_free(client)
    log = "".join(limited_server.log)
    assert "[error" not in log, log
    assert "Traceback" not in log, log


def test_one_job_too_many_is_refused_and_the_others_continue(limited_server: Server, client: httpx.Client) -> None:
    with connected(limited_server.url) as websocket, connected(limited_server.url) as other:
        for number in range(MAX_JOBS):
            websocket.send(type="generate", id=number, n=LONG)
        websocket.send(type="generate", id="more")
        while "more" not in websocket.jobs:
            websocket.receive()
        error = websocket.jobs["more"].messages[-1]["error"]
        assert (error["code"], error["type"]) == ("too_many_jobs", "rate_limit_error")
        assert other.paint(type="generate").order[-1] == "done", "each websocket has a limit of its own"
        websocket.send(type="cancel", id=0)
        websocket.receive_until_finished(1)
        assert websocket.paint(type="generate", id="more").order[-1] == "done"


def test_a_flood_of_messages_closes_the_websocket(limited_server: Server, client: httpx.Client) -> None:
    with connected(limited_server.url) as websocket:
        websocket.send(type="generate", n=LONG)
        websocket.send_together(*[{}] * 10 * MAX_MESSAGES)
        caught = receive_until_closed(websocket)
        last = websocket.jobs[None].messages[-1]["error"]
    assert (caught.rcvd.code, last["code"]) == (1008, "too_many_messages")


def test_a_message_that_is_too_large_closes_the_websocket(limited_server: Server, client: httpx.Client) -> None:
    with connected(limited_server.url) as websocket:
        websocket.send(type="generate", n=LONG)
        websocket.send(type="generate", user="x" * MAX_BODY_BYTES)
        assert receive_until_closed(websocket).rcvd.code == 1009


def test_a_message_in_countless_pieces_closes_the_websocket(limited_server: Server, client: httpx.Client) -> None:
    """Empty pieces, so that no limit of bytes is ever reached."""
    with connected(limited_server.url) as websocket:
        websocket.send(type="generate", n=LONG)
        first, more = (frame(code, fin=False) for code in (Opcode.TEXT, Opcode.CONT))
        websocket.socket.socket.sendall(first + more * 3000)
        assert receive_until_closed(websocket).rcvd.code == 1009


def test_a_client_that_does_not_read_blocks_no_other_client(limited_server: Server, client: httpx.Client) -> None:
    """It has as many jobs as it may; when it disconnects, the fixture waits until all of them are gone."""
    with not_reading(limited_server) as websocket:
        for number in range(MAX_JOBS):
            websocket.send(type="generate", id=number, n=LONG)
        wait_for_metrics(client, lambda now: now.of("num_jobs") == MAX_JOBS)
        assert client.post("/v1/images/generations", json={}).status_code == 200


def test_pings_of_a_client_that_does_not_read_do_not_use_up_memory(
    limited_server: Server, client: httpx.Client
) -> None:
    with not_reading(limited_server) as websocket:
        before = memory(client)
        websocket.socket.socket.sendall(frame(Opcode.PING, b"x" * 125) * 100_000)
        assert memory(client) - before < 8_000_000  # of 12.5 MB


@contextmanager
def not_reading(server: Server) -> Iterator[WebsocketClient]:
    """A client that reads nothing, on a connection with a small receive buffer; it disconnects at the end."""
    with (
        open_connection(server, receive_buffer=4096) as connection,
        connected(server.url, sock=connection, **NOT_READING) as websocket,
    ):
        yield websocket
        websocket.socket.socket.shutdown(socket.SHUT_RDWR)


def memory(client: httpx.Client) -> float:
    text = client.get("/metrics").text
    return float(text.split("\nprocess_resident_memory_bytes ")[1].split()[0])
