"""Limits of a connection, and budgets of the process, of which one client (an
address of 127.0.0.0/8) has a share.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState
from websockets.frames import Opcode

from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.transport.http_protocol import HEADER_BYTES
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.settings import Settings
from tests.support.server import sockets
from tests.support.server.error_answers import assert_refused
from tests.support.server.frames import frame, open_websocket
from tests.support.server.metrics_reader import Metrics, wait_for_metrics
from tests.support.server.routes import GENERATIONS
from tests.support.server.shared_servers import NO_DELAY, server_of
from tests.support.server.sockets import (
    answer_to,
    exchange,
    open_connection,
    post_request,
    response_on,
)
from tests.support.waiting import PATIENCE, wait_for

MAX_HEAD = 4096  # bytes of a head
URL = "/v1/images/generations"
TOO_LONG = {  # label: what is sent, status, code
    "an address without end": (b"GET /" + b"a" * 64 * MAX_HEAD, 414, "address_too_long"),
    "a header without end": (
        b"GET / HTTP/1.1\r\nhost: [::1]\r\na: " + b"a" * 64 * MAX_HEAD,
        431,
        "headers_too_long",
    ),
    "257 headers": (
        b"GET / HTTP/1.1\r\nhost: [::1]\r\n" + b"a:b\r\n" * 256 + b"\r\n",
        431,
        "headers_too_long",
    ),
    "a name without end": (
        b"GET / HTTP/1.1\r\nhost: [::1]\r\n" + b"a" * 64 * MAX_HEAD,
        431,
        "headers_too_long",
    ),
}
HEAD = "POST {} HTTP/1.1\r\nhost: [::1]\r\ncontent-type: {}\r\ncontent-length: 100\r\n\r\n--x\r\n"
JSON = "application/json"
FORM = "multipart/form-data; boundary=x"
SLOW = {  # label: what is sent, and no more
    "nothing": b"",
    "a head": b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n",
    "JSON to paint": HEAD.format(URL, JSON).encode(),
    "a form to edit": HEAD.format("/v1/images/edits", FORM).encode(),
    "JSON to score": HEAD.format("/v1/images/likelihoods", JSON).encode(),
}
NO_HTTP = {
    "text": b"paint me a seven\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(160),
    "a broken chunk": b"POST %b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nseven\r\n"
    % URL.encode(),
}


SHORT = {"receive-timeout": 2.5, "keep-alive-timeout": 1}
strict_server = server_of({**SHORT, "slots": 4, "max-head-bytes": MAX_HEAD, **NO_DELAY})


@pytest.fixture(scope="module")
def late_responses(strict_server):
    """The responses to all slow clients, which wait for their timeouts at the same time."""
    with ThreadPoolExecutor(len(SLOW)) as pool:
        return dict(
            zip(
                SLOW,
                pool.map(lambda sent: exchange(strict_server, sent), SLOW.values()),
                strict=True,
            )
        )


@pytest.mark.parametrize("label", TOO_LONG)
def test_a_long_head_is_refused(strict_server, label):
    sent, status, code = TOO_LONG[label]
    assert_refused(answer_to(strict_server, sent), status, None, code)


def head_of(size):
    """A head that counts as so many bytes: its address, names and
    values, and four for each header.
    """
    first = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\na: "
    counted = (
        len("/healthz") + len("host[::1]") + len("connectionclose") + len("a") + 3 * HEADER_BYTES
    )
    return first + b"x" * (size - counted) + b"\r\n\r\n"


def test_a_head_of_the_limit_passes_and_one_byte_more_does_not(strict_server):
    assert answer_to(strict_server, head_of(MAX_HEAD)).status_code == 200
    assert_refused(answer_to(strict_server, head_of(MAX_HEAD + 1)), 431, None, "headers_too_long")
    most = (
        b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n"
        + b"a:b\r\n" * 254
        + b"\r\n"
    )
    assert answer_to(strict_server, most).status_code == 200


def test_headers_without_end_behind_a_body_end_the_connection(strict_server):
    """Possibly in the middle of its response, where no other response may begin."""
    head = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    with httpx.Client(base_url=strict_server.url) as client:
        before = Metrics(client).of("errors_total", code="headers_too_long")
        exchange(strict_server, head + b"a: b\r\n" * MAX_HEAD)
        assert Metrics(client).of("errors_total", code="headers_too_long") == before + 1


def test_heads_and_bodies_within_the_limit_are_accepted(strict_server):
    headers = {"a": "b" * (MAX_HEAD - 200), "connection": "close"}
    assert httpx.get(f"{strict_server.url}/healthz", headers=headers).status_code == 200
    # in one piece with its head
    large = post_request(URL, {"user": "x" * 50_000}, connection="close")
    assert answer_to(strict_server, large).status_code == 200
    fields = {"user": "x" * 3000}
    both = post_request(URL, fields) + post_request(URL, fields, connection="close")
    assert exchange(strict_server, both).count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize("label", NO_HTTP)
def test_bytes_that_are_not_http_are_refused(strict_server, label):
    response = answer_to(strict_server, NO_HTTP[label])
    assert_refused(response, 400, None, "invalid_http")
    assert len(response.headers["x-request-id"]) == 32
    assert response.headers["connection"] == "close"


@pytest.mark.parametrize("label", list(SLOW)[1:])
def test_a_head_or_body_that_does_not_come_in_time_is_refused(late_responses, label):
    assert_refused(sockets.parse_response(late_responses[label]), 408, None, "receive_timeout")


def test_a_body_that_drips_is_refused(strict_server):
    """Each byte arrives soon after the one before; the whole body takes too long."""
    with open_connection(strict_server) as connection:
        connection.sendall(post_request(URL, {})[:-2].replace(b"length: 2", b"length: 9999"))
        connection.settimeout(0.2)
        data = b""
        while not data:
            connection.sendall(b" ")
            try:
                data = connection.recv(65536)
            except TimeoutError:
                continue
        connection.settimeout(PATIENCE)
        data += sockets.read_until_closed(connection)
    assert_refused(sockets.parse_response(data), 408, None, "receive_timeout")


def test_a_silent_or_idle_connection_is_closed(late_responses, strict_server):
    assert late_responses["nothing"] == b""
    assert exchange(strict_server, b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n\r\n").startswith(
        b"HTTP/1.1 200 OK"
    )


def test_a_connection_whose_refused_body_is_late_is_closed(strict_server):
    head = b"POST /nowhere HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 100\r\n\r\n"
    assert exchange(strict_server, head).startswith(b"HTTP/1.1 404 Not Found")
    assert exchange(strict_server, head + b"x").startswith(b"HTTP/1.1 404 Not Found")
    with open_connection(strict_server) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 2\r\n\r\nx")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404 Not Found")
        connection.sendall(b"x")
        assert b"HTTP" not in sockets.read_until_closed(connection)


def test_an_open_websocket_may_be_silent_for_longer(strict_server):
    """Also one on a connection that was used before."""
    with open_connection(strict_server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n\r\n")
        sockets.until(connection, b"}")
        open_websocket(connection)
        assert exchange(strict_server, b"") == b""  # until the timeout of a silent connection
        connection.sendall(frame(Opcode.PING))
        assert connection.recv(10) == b"\x8a\x00"


def test_a_websocket_message_has_a_limit_of_its_own():
    """By default it may be as large as a body."""
    settings = Settings(max_body_bytes=1000)
    assert uvicorn_options(settings, HttpCounters())["ws"].max_message_bytes() == 1000
    sizes = iter([2, 3])  # as a reload changes it

    async def limits():
        config = uvicorn.Config(
            FastAPI(),
            **uvicorn_options(settings, HttpCounters(), max_message_bytes=lambda: next(sizes)),
        )
        return [config.ws(config, ServerState(), {}).conn.max_message_size for _ in range(2)]

    assert asyncio.run(limits()) == [2, 3]


GET = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n\r\n"
CONNECTIONS = 20
SHARE = 0.5
ONE = "127.0.0.2"  # the address of the client that takes more than its share
BODY = (
    b"POST /v1/images/edits HTTP/1.1\r\nhost: [::1]\r\n"
    b"content-type: application/json\r\ncontent-length: 15000000\r\n\r\n"
)


SHARED = {"slots": 4, "client-share": SHARE, "max-arriving-bytes": 2_000_000, **NO_DELAY}
small_server = server_of({**SHARED, "max-connections": CONNECTIONS, "max-unread-bytes": 400_000})
many_server = server_of({**SHARED, "max-connections": 1000})


@pytest.fixture
def client(small_server):
    """Another client than those of the tests."""
    with small_server.client(transport=httpx.HTTPTransport(local_address="127.0.0.9")) as client:
        yield client


def assert_refused_for_now(response, code):
    __tracebackhide__ = True
    assert_refused(response, 503, None, code)
    assert response.headers["retry-after"] == "2"
    assert len(response.headers["x-request-id"]) == 32


@contextmanager
def open_many(server, count, receive_buffer=0):
    with ExitStack() as stack:
        yield [
            stack.enter_context(open_connection(server, receive_buffer, ONE)) for _ in range(count)
        ]


def answered(server, source):
    return answer_to(server, GET, source).status_code == 200


def test_one_client_has_a_share_of_all_connections(small_server, client):
    """One beyond it is refused, and closed even if its client does not close."""
    before = Metrics(client).errors("too_many_connections")
    with open_many(small_server, int((CONNECTIONS - 1) * SHARE)):  # `client` has one
        with open_connection(small_server, source=ONE) as refused:
            assert_refused_for_now(response_on(refused), "too_many_connections")
            with pytest.raises(ConnectionError):  # noqa: PT012
                while True:
                    refused.sendall(b"x")
                    time.sleep(0.05)
        assert answered(small_server, "127.0.0.3")
        assert Metrics(client).errors("too_many_connections") == before + 1
    wait_for(lambda: answered(small_server, ONE), "room for connections")


def assert_received(response):
    """The body was read to its end, and then refused for what is in it: a
    text that is longer than a picture.
    """
    assert (response.status_code, response.json()["error"]["code"]) == (400, "json_too_complex")


def wait_for_arriving(client, size):
    """Wait until the server has so many bytes of what is not complete, so that
    they came before what is sent next.
    """
    wait_for_metrics(client, lambda now: now.of("connection_arriving_bytes") >= size)


def test_bodies_beyond_a_share_wait_and_are_refused(small_server, client):
    with open_many(small_server, 2) as (first, second):
        first.sendall(BODY + b" " * 900_000)
        wait_for_arriving(client, 900_000)
        second.sendall(BODY + b" " * 300_000)
        assert_refused_for_now(response_on(second), "too_much_arriving")
        wait_for_metrics(client, lambda now: now.of("connection_arriving_bytes") < 1_000_000)
        large = {"user": "x" * 400_000}  # less than the half of what the first leaves
        assert_received(client.post(GENERATIONS, json=large))
        first.close()
        assert_received(
            answer_to(small_server, post_request(GENERATIONS, large, connection="close"), ONE)
        )


def test_a_body_that_waited_for_room_is_received_once_there_is_some(small_server, client):
    with open_many(small_server, 2) as (first, second):
        first.sendall(BODY + b" " * 900_000)
        wait_for_arriving(client, 900_000)
        second.sendall(post_request(GENERATIONS, {"user": "x" * 400_000}, connection="close"))
        time.sleep(0.5)
        first.close()
        assert_received(response_on(second))


HEAD = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n" + b"".join(
    b"x-%d: %s\r\n" % (one, b"a" * 250) for one in range(100)
)


def arriving(client):
    return Metrics(client).of("connection_arriving_bytes")


@pytest.mark.parametrize("rest", [b"", b"x-unfinished: " + b"b" * 200])
def test_unfinished_heads_count_as_arriving_until_they_end(many_server, rest):
    with many_server.client() as client, ExitStack() as stack:

        def send_head():
            connection = stack.enter_context(open_connection(many_server, source=ONE))
            connection.sendall(HEAD + rest)
            return connection

        heads = [send_head()]
        wait_for_arriving(client, 2.9 * len(HEAD))
        each = arriving(client)
        most = int(2_000_000 * SHARE // each)
        heads += [send_head() for _ in range(most - 1)]
        wait_for_arriving(client, most * each)
        assert arriving(client) == most * each, "as many as fit"
        assert_refused_for_now(response_on(send_head()), "too_much_arriving")
        assert answered(many_server, "127.0.0.3")
        heads[0].sendall(b"\r\n" * bool(rest) + b"connection: close\r\n\r\n")
        assert response_on(heads[0]).status_code == 200
        wait_for_metrics(
            client, lambda now: now.of("connection_arriving_bytes") == (most - 1) * each
        )
    with many_server.client() as client:
        wait_for_metrics(client, lambda now: now.of("connection_arriving_bytes") == 0)


def test_an_unfinished_message_counts_as_a_body_does(small_server, client):
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


def test_a_client_that_reads_nothing_on_many_connections_loses_some(small_server, client):
    before = Metrics(client).errors("too_much_unread")
    with open_many(small_server, 8, receive_buffer=4096) as connections:
        for connection in connections:
            connection.sendall(sockets.GET_ASSETS)
        wait_for(
            lambda: Metrics(client).errors("too_much_unread") > before, "an aborted connection"
        )
        # another client loses nothing
        assert client.get(f"/assets/{sockets.ASSET.name}").content == sockets.ASSET.read_bytes()
        assert Metrics(client).of("connection_unread_bytes") > 0
    wait_for_metrics(client, lambda now: now.of("connection_unread_bytes") == 0)  # they have left
