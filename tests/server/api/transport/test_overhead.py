"""A client that keeps the server busy without a model's work is delayed; its
images, and other clients, are not.

Times are measured from a client's first byte, so that a slow machine can only make them longer.
What must not be delayed is read from the server's log.
"""

import itertools
import re
import socket
import time

import httpx
import pytest
from websockets.frames import Opcode

from scanline.server.api.base import rate_limit
from tests.support.server.frames import WEBSOCKET_HEAD, frame
from tests.support.server.json_requests import generate
from tests.support.server.routes import EDITS
from tests.support.server.shared_servers import server_of
from tests.support.server.sockets import exchange, open_connection, post_request, read_until_closed
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

RATE = 4
BURST = int(RATE * rate_limit.BURST_SECONDS)
DELAY = 1.0  # seconds until time has paid for what a client has caused beyond its burst
BEYOND = int(RATE * DELAY) + 1
WRONG = {"image": "!", "keep_rows": 1}
NOT_FOUND = b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


server = server_of({"slots": 4, "max-overhead-per-second": RATE, "log-level": "debug"})


def get(server, source, path="/v1/models"):
    with server.client(transport=httpx.HTTPTransport(local_address=source)) as client:
        assert client.get(path).status_code == 200


def delays(server, source, path=""):
    """The delays of a client's requests of that path, as they are logged."""
    lines = [
        line
        for line in server.log
        if re.search(rf"\bclient={source}\s", line) and f" path={path}" in line
    ]
    return [float(found[1]) for line in lines if (found := re.search(r"delayed=([\d.]+)", line))]


def test_pipelined_errors_are_answered_at_the_rate_and_other_clients_at_once(server):
    count = BURST + BEYOND
    with open_connection(server, source="127.0.1.1") as connection:
        began = time.monotonic()
        connection.sendall(
            NOT_FOUND * (count - 1)
            + NOT_FOUND.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
        )
        get(server, "127.0.1.2")
        answers = read_until_closed(connection)
    assert answers.count(b"HTTP/1.1 404 ") == count, "none is refused"
    assert time.monotonic() - began > DELAY * 0.9
    assert not delays(server, "127.0.1.2")


CAUSES = {  # what is sent on a connection of its own, and what it costs
    "a refused connection": (b"\0\r\n\r\n", rate_limit.CONNECTION_UNITS),
    "a wrong request for images": (
        post_request(EDITS, WRONG, connection="close"),
        1 + rate_limit.FAILED_WORK_UNITS,
    ),
    "a websocket without a job": (
        WEBSOCKET_HEAD + b"\r\n" + frame(Opcode.CLOSE),
        rate_limit.WEBSOCKET_UNITS,
    ),
}


@pytest.mark.parametrize("label", CAUSES)
def test_it_delays_the_next_request(server, label):
    (sent, units), source = CAUSES[label], f"127.0.1.{10 + [*CAUSES].index(label)}"
    began = time.monotonic()
    for _ in range(int((BURST + BEYOND) / units) + 1):
        assert exchange(server, sent, source)
    get(server, source)
    assert time.monotonic() - began > DELAY * 0.9, "it waited until the connections were paid for"


def test_a_probe_waits_only_for_a_moment(server):
    with open_connection(server, source="127.0.1.5") as connection:
        connection.sendall(NOT_FOUND * (BURST + 10 * BEYOND))  # ten seconds of work at the rate
        wait_for(lambda: delays(server, "127.0.1.5"), "a delay")
        get(server, "127.0.1.5", "/healthz")
    logged = wait_for(lambda: delays(server, "127.0.1.5", "/healthz"), "the probe's log line")
    assert logged == [rate_limit.PROBE_SECONDS]


def test_wrong_messages_are_answered_at_the_rate(server):
    with connected(server.url, source_address=("127.0.1.6", 0)) as websocket:
        began = time.monotonic()
        for _ in range(BURST + BEYOND + 1):
            websocket.socket.send("{")
        for _ in range(BURST + BEYOND + 1):
            assert websocket.receive().last == "error"
        assert time.monotonic() - began > DELAY * 0.9


def test_requests_and_jobs_for_images_cost_nothing(server):
    addresses = itertools.count(40)

    def is_without_delay():
        """Of a client that has not been seen: a collection of garbage, which can fall into any
        request, costs only one of them its time."""
        source = f"127.0.1.{next(addresses)}"
        with server.client(transport=httpx.HTTPTransport(local_address=source)) as client:
            for _ in range(BURST + BEYOND):
                generate(client)
        for _ in range(BURST // 2):
            with connected(server.url, source_address=(source, 0)) as websocket:
                assert websocket.paint().last == "done"
        return not delays(server, source)

    wait_for(is_without_delay, "a client whose images cost it nothing")


CHUNKED = b"POST /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
SMALL = {  # what is sent on connections, again and again until the client has to wait
    "chunks of a byte": CHUNKED + b"1\r\na\r\n" * 5000,
    "pings": WEBSOCKET_HEAD + b"\r\n" + frame(Opcode.PING) * 2000,
    "nothing": b"",
}


@pytest.mark.parametrize("label", SMALL)
def test_small_pieces_and_connections_without_a_request_are_overhead(server, label):
    source = f"127.0.1.{20 + list(SMALL).index(label)}"

    def is_delayed():
        with open_connection(server, source=source) as connection:
            connection.sendall(SMALL[label])
            connection.shutdown(socket.SHUT_WR)
            read_until_closed(connection)
        get(server, source)
        return bool(delays(server, source))

    wait_for(is_delayed, "a delay")
