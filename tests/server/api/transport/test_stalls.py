"""Clients that stop in any phase: opening a websocket, sending a message,
reading an answer, or during a drain.
"""

import asyncio
import signal
import socket
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager

import httpx
import pytest
import uvicorn
from websockets.frames import Opcode

from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.settings import Settings
from tests.support.server.error_answers import assert_refused
from tests.support.server.frames import LONG_WORK, WEBSOCKET_HEAD, frame, open_websocket
from tests.support.server.metrics_reader import Metrics, wait_for_metrics
from tests.support.server.running_server import PATIENCE, Server, client_of
from tests.support.server.shared_servers import LONG, NO_DEADLINE, NO_DELAY, arguments, server_of
from tests.support.server.sockets import GET_ASSETS, answer_to, open_connection, read_until_closed
from tests.support.sweeps import and_slow
from tests.support.waiting import wait_for

HANDSHAKES = {  # each is no websocket handshake, though it begins as one
    "200 headers": WEBSOCKET_HEAD
    + b"".join(b"a%d: b\r\n" % number for number in range(200))
    + b"\r\n",
    "a header of 9 kB": WEBSOCKET_HEAD + b"a: " + b"x" * 9000 + b"\r\n\r\n",
    "an address of 9 kB": WEBSOCKET_HEAD.replace(b"stream", b"s" * 9000) + b"\r\n",
    "a body that never comes": WEBSOCKET_HEAD + b"content-length: 5\r\n\r\n",
    "a body of chunks": WEBSOCKET_HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n",
    "POST": WEBSOCKET_HEAD.replace(b"GET", b"POST") + b"\r\n",
    "HTTP/1.0": WEBSOCKET_HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
    "no key": WEBSOCKET_HEAD.partition(b"sec-websocket-key")[0] + b"\r\n",
    "two keys": WEBSOCKET_HEAD + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "a subprotocol of nothing": WEBSOCKET_HEAD + b"sec-websocket-protocol: ,\r\n\r\n",
}
MESSAGE = frame(Opcode.TEXT, b"x" * 1000)
UNFINISHED = {  # what is sent, and then again and again
    "half a frame": (MESSAGE[:500], b""),
    "a fragment and pings": (frame(Opcode.TEXT, b"x", fin=False), frame(Opcode.PING)),
}


ROOM = {"max-images-per-request": LONG, "max-waiting-images": 20 * LONG, "client-share": 1}


SECONDS = {"receive-timeout": 2, "send-timeout": 2, "keep-alive-timeout": 2}
strict_server = server_of({**ROOM, **SECONDS, **NO_DELAY, **NO_DEADLINE, "slots": 4})
# It keeps no connection: the server closes one that waits, maybe just as the next request is sent.
client = client_of("strict_server", limits=httpx.Limits(max_keepalive_connections=0))


@pytest.mark.parametrize("label", HANDSHAKES)
def test_what_is_no_handshake_is_refused_and_closed(strict_server, client, label):
    before = Metrics(client).errors("invalid_websocket_handshake")
    response = answer_to(strict_server, HANDSHAKES[label])
    assert_refused(response, 400, None, "invalid_websocket_handshake")
    assert response.headers["connection"] == "close"
    assert Metrics(client).errors("invalid_websocket_handshake") == before + 1
    request_id = response.headers["x-request-id"]
    (line,) = wait_for(
        lambda: [line for line in strict_server.log if request_id in line], "its log line"
    )
    assert "request" in line


@pytest.mark.parametrize("label", UNFINISHED)
def test_a_message_without_end_closes_its_websocket(strict_server, client, label):
    before = Metrics(client).errors("receive_timeout")
    first, more = UNFINISHED[label]
    with open_connection(strict_server) as connection:
        open_websocket(connection)
        connection.sendall(first)
        connection.settimeout(0.1)
        data = b""
        ended = False
        while not ended:
            try:
                received = connection.recv(65536)
                data = data + received
                ended = not received
            except TimeoutError:
                connection.sendall(more)
            except ConnectionError:
                ended = True
    assert b'"receive_timeout"' in data
    assert b"\x03\xf0A message was not received" in data  # a close frame of code 1008
    assert Metrics(client).errors("receive_timeout") == before + 1


def test_a_websocket_whose_messages_follow_each_other_stays_open(strict_server):
    """Each ends where the next begins, for longer than one may take."""

    def answers():
        """What the server sends until it has answered all; nothing where
        a busy machine held this client.
        """
        with open_connection(strict_server) as connection:
            open_websocket(connection)
            connection.sendall(MESSAGE[:1])
            for _ in range(8):
                if pause(0.5) > 1:
                    return b""
                connection.sendall(MESSAGE[1:] + MESSAGE[:1])
            connection.sendall(MESSAGE[1:])
            data = b""
            while data.count(b'"invalid_json"') < 9 and (more := connection.recv(65536)):
                data += more
        return data

    data = wait_for(answers, "a client that sends in time")
    assert data.count(b'"invalid_json"') == 9
    assert b"receive_timeout" not in data


def pause(seconds):
    """Sleep; return the seconds that passed, which are more on a busy machine."""
    began = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - began


UNREAD = {
    "files": lambda connection: connection.sendall(GET_ASSETS),
    "events": LONG_WORK["events"],
    "websocket": LONG_WORK["websocket"],
}


@pytest.mark.parametrize("label", and_slow(["files"], "events", "websocket"))
def test_a_client_that_reads_nothing_is_disconnected(strict_server, client, label):
    before = Metrics(client).errors("send_timeout")
    with open_connection(strict_server, receive_buffer=4096) as connection:
        UNREAD[label](connection)
        logged = len(strict_server.log)
        wait_for(
            lambda: any("send_timeout" in line for line in strict_server.log[logged:]),
            "the connection's end",
        )
        assert Metrics(client).errors("send_timeout") == before + 1
        wait_for_metrics(client, lambda now: now.of("num_images_reserved") == 0)
        read_until_closed(connection)


@pytest.mark.parametrize("label", and_slow(["files"], "events", "websocket"))
def test_a_client_that_reads_slowly_is_not(strict_server, client, label):
    """For three times as long as one may read nothing."""

    def is_connected():
        """Whether it is after six seconds; False where a busy machine held
        this client for longer than it may.
        """
        before = Metrics(client).errors("send_timeout")
        with open_connection(strict_server, receive_buffer=65536) as connection:
            UNREAD[label](connection)
            until = time.monotonic() + 6
            while time.monotonic() < until:
                assert connection.recv(65536)
                if pause(0.05) > 1:
                    return False
            assert Metrics(client).errors("send_timeout") == before
        return True

    wait_for(is_connected, "a client that reads in time")


def test_empty_lines_do_not_keep_a_connection_open(strict_server):
    """Neither a new one nor one that has been answered."""
    for first in (b"", b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n\r\n"):
        with open_connection(strict_server) as connection:
            connection.sendall(first)
            if first:
                assert connection.recv(65536)
            connection.sendall(b"\r\n")
            assert b"200 OK" not in read_until_closed(connection)


HOLDERS = {
    "files": UNREAD["files"],
    "half a head": lambda connection: connection.sendall(b"GET / HTTP/1.1\r\n"),
    "nothing": lambda connection: None,
    "an idle websocket": open_websocket,
}


@contextmanager
def draining(directory, holders, *options):
    """A server that was signalled while clients held connections that they do not read from."""
    server = Server(directory, *options)
    with ExitStack() as stack:
        stack.callback(server.process.kill)
        server.wait_until_ready()
        for hold in holders.values():
            hold(stack.enter_context(open_connection(server, receive_buffer=4096)))
        time.sleep(1)  # until the buffers are full
        server.process.send_signal(signal.SIGTERM)
        yield server


def test_no_client_that_stalls_holds_a_drain(grey_directory):
    """The server exits with status 0, long before the drain would time out."""
    with draining(grey_directory, HOLDERS, "--drain-seconds", str(10 * PATIENCE)) as server:
        assert server.wait_until_exited() == 0, server.log_text
    assert_clean_end(server)


def test_answers_that_nobody_reads_end_with_the_drain(grey_directory):
    """They are accepted work, so that the drain waits for them until it times out."""
    with draining(grey_directory, UNREAD, "--drain-seconds", "0.5", *arguments(ROOM)) as server:
        assert server.wait_until_exited() == 1, server.log_text
    assert_clean_end(server)


def assert_clean_end(server):
    log = server.log_text
    assert "drain" in log
    assert "Traceback" not in log, log
    assert "Cancel " not in log, log  # uvicorn had to cancel no task


@asynccontextmanager
async def leaving_unread(app):
    """The server's side and the client's of a connection whose answer waits to be read."""
    options = uvicorn_options(Settings(send_timeout=PATIENCE), HttpCounters())
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", **options))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        serving = asyncio.create_task(server.serve([listener]))
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: [::1]\r\n\r\n")
            connections = options["http"].all_connections
            while not connections.budgets.unread.used:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            (transport,) = connections.open
            yield transport, client
        server.should_exit = True
        await serving


class LargeAnswer:
    """An application whose answer has 100 parts."""

    part = bytes(100_000)

    def __init__(self):
        self.made = 0

    async def __call__(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for _ in range(100):
            self.made += 1
            await send({"type": "http.response.body", "body": self.part, "more_body": True})


async def test_no_part_of_an_answer_is_made_before_there_is_room_for_it():
    """What is unread is what is counted: an application holds no next part,
    which may be large, for the client.
    """
    answer = LargeAnswer()
    async with leaving_unread(answer) as (transport, _):
        assert transport.written >= answer.made * len(answer.part)


async def test_a_client_that_closes_its_side_is_let_go_though_it_does_not_read():
    answer = LargeAnswer()
    async with leaving_unread(answer) as (_, client):
        client.shutdown(socket.SHUT_WR)
        while answer.made < 100:
            await asyncio.sleep(0.01)
