"""Where an HTTP message ends; and requests one behind the other:
answered in order, in constant memory.
"""

import asyncio
import socket
import threading
import time

import httptools
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.transport.http_protocol import MAX_SLICES
from scanline.server.api.transport.message_ends import MessageEnds
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.settings import Settings
from tests.support.server.frames import WEBSOCKET_HEAD
from tests.support.server.loop_lag import peak
from tests.support.server.metrics_reader import Metrics, wait_for_metrics, wait_until_idle
from tests.support.server.shared_servers import LARGE, LONG, idle_client_of, server_of
from tests.support.server.sockets import (
    CLOSES,
    exchange,
    open_connection,
    post_request,
    read_until_closed,
    until,
)

URL = "/v1/images/generations"
GET = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n\r\n"
LAST_GET = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n\r\n"
FLOOD = b"GET / HTTP/1.1\r\n\r\n"
OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"


# of few slots, so that a long job is running when its client leaves
slow_server = server_of({"slots": 4, "max-waiting-images": 20 * LONG, **LARGE})
client = idle_client_of("slow_server")


def test_answers_come_in_the_order_of_the_requests(slow_server):
    """The first one takes longest."""
    paths = [b"/v1/models", b"/v1/models/grey", b"/nowhere", b"/healthz"]
    gets = b"".join(b"GET %b HTTP/1.1\r\nhost: [::1]\r\n\r\n" % path for path in paths)
    data = exchange(slow_server, post_request(URL, {"n": 20}) + gets + LAST_GET)
    found = [data.index(word) for word in (b'"b64_json"', b'"object":"list"', b"not_found")]
    assert found == sorted(found)
    assert data.count(b"HTTP/1.1 ") == 6


def test_bodies_of_both_kinds_are_read_between_other_requests(slow_server):
    body = b'{"n": 1, "user": "\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n"}'.replace(
        b"\r\n", b"\\r\\n"
    )
    head = b"POST %b HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n" % URL.encode()
    chunked = head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    large = post_request(URL, {"n": 1, "user": "x" * 60_000})
    with open_connection(slow_server) as connection:
        sending = threading.Thread(
            target=connection.sendall, args=((chunked + GET + large) * 3 + LAST_GET,)
        )
        sending.start()
        data = read_until_closed(connection)
        sending.join()
    assert data.count(b"HTTP/1.1 200 OK") == 10, data[:2000]


def test_a_flood_takes_constant_memory_and_others_are_answered(slow_server, client):
    """Two floods: one whose answers are read, and one whose answers are not."""
    before = peak(slow_server)
    stopped = threading.Event()

    def flood(connection):
        connection.setblocking(False)
        while not stopped.is_set():
            try:
                connection.send(FLOOD * 10_000)
            except BlockingIOError:
                stopped.wait(0.001)
            except ConnectionError:  # a flood may be closed
                return

    def drain(connection):
        while not stopped.is_set():
            try:
                connection.recv(1_000_000)
            except BlockingIOError:
                stopped.wait(0.001)
            except ConnectionError:  # a flood may be closed
                return

    with (
        open_connection(slow_server) as read,
        open_connection(slow_server, receive_buffer=4096) as unread,
    ):
        threads = [threading.Thread(target=flood, args=(one,)) for one in (read, unread)]
        threads.append(threading.Thread(target=drain, args=(read,)))
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                assert client.get("/healthz").status_code == 200
                time.sleep(0.1)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
    assert peak(slow_server) - before < 20_000_000


@pytest.mark.parametrize(
    ("close", "behind"),
    [("close", GET), ("reset", FLOOD * 10_000), ("half-close", b"POST ")],
    ids=["a request", "a flood", "half a head"],
)
def test_a_client_that_leaves_is_seen(slow_server, client, close, behind):
    cancelled = Metrics(client).of("request_success_total", finished_reason="cancelled")
    with open_connection(slow_server) as connection:
        connection.sendall(post_request(URL, {"n": LONG}) + behind)
        wait_for_metrics(client, lambda now: now.of("num_images_running") == 4)
        CLOSES[close](connection)
        now = wait_until_idle(client)
    assert now.of("request_success_total", finished_reason="cancelled") == cancelled + 1


def test_a_body_of_many_possible_ends_is_parsed_in_several_turns():
    turns = []
    options = uvicorn_options(Settings(), HttpCounters())

    class Counting(options["http"]):
        def _parse(self, data):
            turns.append(0)
            super()._parse(data)

        def _parse_slice(self, data):
            turns[-1] += 1
            super()._parse_slice(data)

    async def answer(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    async def serve():
        server = uvicorn.Server(
            uvicorn.Config(answer, lifespan="off", **{**options, "http": Counting})
        )
        body = (b"x" * 600 + b"\r\n\r\n") * 200
        head = b"POST / HTTP/1.1\r\nhost: [::1]\r\ntransfer-encoding: chunked\r\n\r\n"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve([listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            line = await reader.readline()
            writer.close()
            server.should_exit = True
            await serving
        return line

    assert asyncio.run(serve()).startswith(b"HTTP/1.1 200")
    assert sum(turns) > 200
    assert max(turns) == MAX_SLICES


def test_an_offer_of_http2_is_ignored_and_what_follows_is_answered(slow_server):
    """Clients offer it with bodies, too; it leaves their wish to close."""
    body = post_request(URL, {"n": 1}).replace(b"host: [::1]\r\n", b"host: [::1]\r\n" + OFFER)
    get = GET.replace(b"host: [::1]\r\n", b"host: [::1]\r\n" + OFFER)
    data = exchange(slow_server, body + get + get.replace(b"connection: ", b"connection: close, "))
    assert data.count(b"HTTP/1.1 200 OK") == 3
    assert data.count(b'"b64_json"') == 1


def test_a_websocket_behind_an_unanswered_request_opens_after_it(slow_server):
    with open_connection(slow_server) as connection:
        connection.sendall(
            post_request(URL, {"n": 3}) + WEBSOCKET_HEAD + b"\r\n" + bytes([0x89, 0x80, 0, 0, 0, 0])
        )
        data = until(connection, b"\x8a\x00")
    assert data.index(b"HTTP/1.1 200 OK") < data.index(b"HTTP/1.1 101 ")


PIECES = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"x"]
)
BODIES = st.lists(PIECES, max_size=6).map(b"".join)


def get():
    return b"GET /a HTTP/1.1\r\nhost: [::1]\r\n\r\n"


def with_length(body):
    return b"POST /b HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def chunked(body):
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return b"POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunk + b"0\r\na: b\r\n\r\n"


MESSAGES = st.one_of(st.builds(get), st.builds(with_length, BODIES), st.builds(chunked, BODIES))


class Reader:
    """Reads messages as the protocol does; keeps where each of them ended."""

    def __init__(self):
        self.parser = httptools.HttpRequestParser(self)
        self.finder = MessageEnds()
        self.in_message = False
        self.read = 0
        self.ends = []
        self.completed = 0  # by the current slice
        self.headers = {}

    def on_message_begin(self):
        self.in_message = True
        self.headers = {}

    def on_header(self, name, value):
        self.headers[name] = value

    def on_headers_complete(self):
        self.finder.body_left = int(self.headers.get(b"content-length", 0))

    def on_message_complete(self):
        self.in_message = False
        self.completed += 1

    def feed(self, data):
        start = 0
        while start < len(data):
            self.completed = 0
            end = self.finder.next(data, start, self.in_message)
            assert end > start
            self.parser.feed_data(data[start:end])
            self.read += end - start
            start = end
            assert self.completed <= 1
            if self.completed:
                self.ends.append(self.read)


@given(
    st.lists(st.tuples(st.sampled_from([b"", b"\r\n", b"\r\n\r\n"]), MESSAGES), max_size=6),
    st.data(),
)
def test_each_message_ends_a_slice_however_it_arrives(messages, data):
    sent = b""
    ends = []
    for blank, message in messages:
        sent += blank + message
        ends.append(len(sent))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=20)))
    reader = Reader()
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        reader.feed(sent[start:end])
    assert reader.ends == ends
