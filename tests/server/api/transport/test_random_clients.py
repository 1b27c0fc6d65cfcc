"""Generated clients on bare sockets: whatever they do, the server
answers others and leaks nothing.
"""

import os
import socket
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.frames import Opcode

from tests.support.server.frames import WEBSOCKET_HEAD, frame
from tests.support.server.json_requests import generate
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.routes import GENERATIONS
from tests.support.server.shared_servers import NO_DELAY, serve_with
from tests.support.server.sockets import answer_to, open_connection, post_request, reset
from tests.support.waiting import wait_for

HTTP = [  # whole requests and parts of them
    b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n\r\n",
    b"HEAD /healthz HTTP/1.0\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nhost: [::1]\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    b"POST /v1/images/edits HTTP/1.1\r\nhost: [::1]\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
    b"POST /nowhere HTTP/1.1\r\nhost: [::1]\r\ntransfer-encoding: chunked\r\n\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
    post_request(GENERATIONS, {"n": 2}),
    post_request(GENERATIONS, {"n": 300, "stream": True, "partial_images": 2}),
    post_request(GENERATIONS, {"user": "x" * 70_000}),
    b"\r\n",
    b"a: b\r\n",
    b"GET /" + b"a" * 10_000,
    b"\x00",
    bytes.fromhex("16030100a5010000a10303"),
]


WEBSOCKET = [  # whole frames and parts of them
    frame(Opcode.TEXT, b'{"type": "generate", "n": 2}'),
    frame(Opcode.TEXT, b'{"type": "generate", "n": 300, "id": 1}'),
    frame(Opcode.TEXT, b'{"type": "cancel", "id": 1}'),
    frame(Opcode.TEXT, b"[", fin=False),
    frame(Opcode.CONT, b"", fin=False),
    frame(Opcode.CONT, b"]"),
    frame(Opcode.BINARY, bytes(70_000)),
    frame(Opcode.PING, b"x"),
    frame(Opcode.CLOSE, b"\x03\xe8"),
    b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff",  # a length of 63 bits
    b"\x89\xfe\x00\x7e",  # a ping that is too long
    b"\x81\x05hello",  # not masked
    b"\xc1\x80\x00\x00\x00\x00",  # a reserved bit
]
RANDOM = st.binary(min_size=1, max_size=200)
SENT = {
    "HTTP": st.one_of(st.sampled_from(HTTP), st.sampled_from(HTTP), RANDOM),
    "websocket": st.one_of(st.sampled_from(WEBSOCKET), st.sampled_from(WEBSOCKET), RANDOM),
}


@st.composite
def a_piece(draw, kind):
    """Something, some times over, perhaps cut off."""
    data = draw(SENT[kind]) * draw(st.sampled_from([1, 1, 1, 2, 30, 1000]))
    data = data[:200_000]
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 3)) == 0 else data


Action = tuple[str, bytes | float]


@st.composite
def a_client(draw):
    """What a client does, one after the other; the last action is how it leaves."""
    kind = draw(st.sampled_from(list(SENT)))
    begin = [("send", WEBSOCKET_HEAD + b"\r\n")] if kind == "websocket" else []
    actions = st.one_of(
        st.tuples(st.just("send"), a_piece(kind)),
        st.tuples(st.just("send"), a_piece(kind)),
        st.tuples(st.just("pause"), st.sampled_from([0.0, 0.001, 0.02])),
        st.tuples(st.just("read"), st.just(b"")),
    )
    end = draw(st.sampled_from(["close", "reset", "half-close", "wait"]))
    return [*begin, *draw(st.lists(actions, max_size=8)), (end, b"")]


def act(connection, actions):
    """Does all of it, until the server closes the connection."""
    connection.settimeout(0.3)
    with suppress(OSError):  # which may be a refusal, or a server that does not read on
        for action, value in actions:
            match action, value:
                case "send", bytes():
                    connection.sendall(value)
                case "pause", float():
                    time.sleep(value)
                case "read", _:
                    with suppress(TimeoutError):
                        connection.recv(65536)
                case "reset", _:
                    reset(connection)
                case "half-close", _:
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(65536)
                case "wait", _:
                    connection.recv(65536)


def open_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@pytest.fixture(scope="module")
def fuzzed_server(grey_directory):
    """At its end all connections of generated clients are gone, and their work."""
    limits = {
        "max-head-bytes": 4096,
        "max-messages-per-second": 100_000,
        "max-waiting-images": 1_000_000,
    }
    options = {
        "slots": 64,
        "client-share": 1,
        "receive-timeout": 3,
        "send-timeout": 3,
        **limits,
        **NO_DELAY,
    }
    with serve_with(grey_directory, options) as server:
        yield server
        with server.client() as client:
            wait_until_idle(client, "websocket_connections")
            generate(client)
            assert not [
                one for one in Metrics(client).samples if one.labels.get("code") == "internal_error"
            ]
    log = server.log_text
    assert "[error" not in log, log[log.index("[error") :][:5000]


@settings(suppress_health_check=list(HealthCheck))
@given(clients=st.lists(a_client(), min_size=1, max_size=3))
def test_no_client_harms_the_server(fuzzed_server, clients):
    """Many more of them: `--hypothesis-profile many`."""
    before = open_files(fuzzed_server)
    for actions in clients:
        with open_connection(fuzzed_server) as connection:
            act(connection, actions)
    assert answer_to(fuzzed_server, HTTP[2]).status_code == 200
    wait_for(lambda: open_files(fuzzed_server) <= before, "the end of all connections")
