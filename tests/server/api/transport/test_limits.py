"""What comes before a request is one: heads too long, too slow or no HTTP, bodies that never come, idle connections."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.server.api.routes.test_metrics import Numbers
from tests.support.error_answers import answer_of, assert_refused
from tests.support.patience import PATIENCE
from tests.support.running_server import Server, serve
from tests.support.sockets import answer, post, rest, wire
from tests.support.websocket_client import connected

MOST = 4096  # bytes of a head
URL = "/v1/images/generations"
TOO_LONG = {  # label: what is sent, status, code
    "an address": (b"GET /" + b"a" * 2 * MOST + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414, "address_too_long"),
    "an address without end": (b"GET /" + b"a" * 64 * MOST, 414, "address_too_long"),
    "a query": (b"GET /healthz?" + b"a" * 2 * MOST + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414, "address_too_long"),
    "a header": (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"a" * 2 * MOST + b"\r\n\r\n", 431, "headers_too_long"),
    "a header without end": (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"a" * 64 * MOST, 431, "headers_too_long"),
    "a name without end": (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a" * 64 * MOST, 431, "headers_too_long"),
    "many headers": (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * MOST + b"\r\n", 431, "headers_too_long"),
    "a websocket's header": (
        b"GET /v1/images/stream HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\na: " + b"a" * 2 * MOST + b"\r\n\r\n",
        431,
        "headers_too_long",
    ),
}
HEAD = "POST {} HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: 100\r\n\r\n--x\r\n"
JSON, FORM = "application/json", "multipart/form-data; boundary=x"
SLOW = {  # label: what is sent, and no more
    "nothing": b"",
    "a head": b"GET /healthz HTTP/1.1\r\nhost: x\r\n",
    "JSON to paint": HEAD.format(URL, JSON).encode(),
    "JSON to edit": HEAD.format("/v1/images/edits", JSON).encode(),
    "a form to edit": HEAD.format("/v1/images/edits", FORM).encode(),
    "JSON to score": HEAD.format("/v1/images/likelihoods", JSON).encode(),
    "a form to score": HEAD.format("/v1/images/likelihoods", FORM).encode(),
}
NO_HTTP = {
    "text": b"paint me a seven\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(160),
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "a method of its own": b"PAINT / HTTP/1.1\r\nhost: x\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    "a length that is none": b"POST / HTTP/1.1\r\ncontent-length: seven\r\n\r\n",
    "a space in a name": b"GET / HTTP/1.1\r\na b: c\r\n\r\n",
}


@pytest.fixture(scope="module")
def narrow(grey_directory: Path) -> Iterator[Server]:
    """Little patience with those who send slowly, and heads of four kilobytes."""
    patience = ("--receive-timeout", "2.5", "--keep-alive-timeout", "1")
    with serve(grey_directory, "--slots", "4", "--max-head-bytes", str(MOST), *patience) as server:
        yield server


def said(server: Server, data: bytes) -> bytes:
    """What comes back for that until the server closes."""
    with wire(server) as connection:
        connection.sendall(data)
        return rest(connection)


@pytest.fixture(scope="module")
def late(narrow: Server) -> dict[str, bytes]:
    """What is said to those who send slowly, all at the same time."""
    with ThreadPoolExecutor(len(SLOW)) as pool:
        return dict(zip(SLOW, pool.map(lambda sent: said(narrow, sent), SLOW.values()), strict=True))


@pytest.mark.parametrize("label", TOO_LONG)
def test_a_long_head_is_refused(narrow: Server, label: str) -> None:
    sent, status, code = TOO_LONG[label]
    assert_refused(answer(said(narrow, sent)), status, None, code)


def test_headers_without_end_behind_a_body_end_the_connection(narrow: Server) -> None:
    """Perhaps in the middle of its answer, where no other may stand."""
    head = b"GET /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    with httpx.Client(base_url=narrow.url) as client:
        before = Numbers(client).of("errors_total", code="headers_too_long")
        said(narrow, head + b"a: b\r\n" * MOST)
        assert Numbers(client).of("errors_total", code="headers_too_long") == before + 1


def test_a_head_that_is_just_short_enough_is_taken(narrow: Server) -> None:
    headers = {"a": "b" * (MOST - 200), "connection": "close"}
    assert httpx.get(f"{narrow.url}/healthz", headers=headers).status_code == 200


def test_a_large_body_in_one_piece_with_its_head_is_no_long_head(narrow: Server) -> None:
    with wire(narrow) as connection:
        connection.sendall(post(URL, {"user": "x" * 50_000}, connection="close"))
        assert answer(rest(connection)).status_code == 200


def test_requests_in_one_piece_are_each_answered(narrow: Server) -> None:
    both = post(URL, {"n": 1, "user": "x" * 3000}) + post(URL, {"n": 2, "user": "x" * 3000}, connection="close")
    assert said(narrow, both).count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize("label", NO_HTTP)
def test_what_is_no_http_is_told_so(narrow: Server, label: str) -> None:
    response = answer(said(narrow, NO_HTTP[label]))
    assert_refused(response, 400, None, "invalid_http")
    assert len(response.headers["x-request-id"]) == 32
    assert response.headers["connection"] == "close"


def test_a_handshake_of_the_websocket_library_is_refused_in_its_words(narrow: Server) -> None:
    with wire(narrow) as connection:
        connection.sendall(
            b"GET /v1/images/stream HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        )
        assert rest(connection).startswith(b"HTTP/1.1 400 Bad Request")


@pytest.mark.parametrize("label", list(SLOW)[1:])
def test_a_head_or_body_that_does_not_come_in_time_is_refused(late: dict[str, bytes], label: str) -> None:
    assert_refused(answer(late[label]), 408, None, "receive_timeout")


def test_a_body_that_drips_is_refused(narrow: Server) -> None:
    """Each byte comes soon after the one before; all together take too long."""
    with wire(narrow) as connection:
        connection.sendall(post(URL, {})[:-2].replace(b"length: 2", b"length: 9999"))
        connection.settimeout(0.2)
        data = b""
        while not data:
            connection.sendall(b" ")
            try:
                data = connection.recv(65536)
            except TimeoutError:
                continue
        connection.settimeout(PATIENCE)
        data += rest(connection)
    assert_refused(answer(data), 408, None, "receive_timeout")


def test_a_connection_that_says_nothing_is_closed(late: dict[str, bytes]) -> None:
    assert late["nothing"] == b""


def test_an_idle_connection_is_closed(narrow: Server) -> None:
    assert said(narrow, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").startswith(b"HTTP/1.1 200 OK")


def test_a_connection_whose_refused_body_never_comes_is_closed(narrow: Server) -> None:
    head = b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
    assert said(narrow, head).startswith(b"HTTP/1.1 404 Not Found")
    assert said(narrow, head + b"x").startswith(b"HTTP/1.1 404 Not Found")


def test_a_connection_whose_refused_body_came_late_is_closed(narrow: Server) -> None:
    with wire(narrow) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nx")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404 Not Found")
        connection.sendall(b"x")
        assert b"HTTP" not in rest(connection)


def test_a_websocket_to_a_long_address_is_refused(narrow: Server) -> None:
    with pytest.raises(InvalidStatus) as refused, connected(narrow.url, "/" + "a" * 2 * MOST):
        pass
    assert_refused(answer_of(refused.value), 414, None, "address_too_long")


def test_an_open_websocket_may_say_nothing_for_longer(narrow: Server) -> None:
    with connected(narrow.url) as painter:
        assert said(narrow, b"") == b""  # as long as a connection may be silent
        assert painter.paint(type="generate").order[-1] == "done"


def test_nobody_else_notices(narrow: Server) -> None:
    assert httpx.post(f"{narrow.url}{URL}", json={}).status_code == 200
    assert not [line for line in narrow.log if "Traceback" in line]
