"""The private parts of uvicorn and websockets that server/api/transport relies on, each by its name.

pyproject.toml pins both to a range; when a range is widened, a failure here says which part has changed.
"""

import inspect
from typing import Any

import pytest
from uvicorn import _types
from uvicorn.config import Config
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import TooManyHeaders
from websockets.frames import Frame, Opcode
from websockets.http11 import MAX_NUM_HEADERS
from websockets.protocol import State
from websockets.server import ServerProtocol

from tests.support.server.sockets import WEBSOCKET_HEAD

HTTP = [
    "_should_upgrade",
    "_start_asgi_task",
    "_unset_keepalive_if_required",
    "_unsupported_upgrade_warning",
    "connection_lost",
    "connection_made",
    "cycle",
    "data_received",
    "eof_received",
    "flow",
    "handle_websocket_upgrade",
    "headers",
    "loop",
    "on_body",
    "on_header",
    "on_headers_complete",
    "on_message_begin",
    "on_message_complete",
    "on_response_complete",
    "on_url",
    "parser",
    "send_400_response",
    "shutdown",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "timeout_keep_alive_task",
    "transport",
    "url",
]
WEBSOCKET = [
    "close_sent",
    "conn",
    "connection_lost",
    "curr_msg_data_type",
    "data_received",
    "disconnected",
    "eof_received",
    "frames",
    "handle_cont",
    "handle_events",
    "handle_parser_exception",
    "handle_ping",
    "handshake_complete",
    "handshake_initiated",
    "loop",
    "queue",
    "read_paused",
    "receive",
    "send",
    "send_receive_event_to_app",
    "shutdown",
    "transport",
    "writable",
]


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers nothing."""


def made(kind: type[Any]) -> Any:
    """A protocol without a connection."""
    return kind(Config(nothing, log_config=None), ServerState(), {}, _loop=object())


def test_both_protocols_have_what_is_overridden() -> None:
    http, websocket = made(HttpToolsProtocol), made(WebSocketsSansIOProtocol)
    http.on_message_begin()
    for protocol, names in ((http, HTTP), (websocket, WEBSOCKET)):
        assert [name for name in names if not hasattr(protocol, name)] == []


def test_modules_have_what_is_imported() -> None:
    assert httptools_impl.STATUS_LINE[431].startswith(b"HTTP/1.1 431 ")
    cycle = httptools_impl.RequestResponseCycle.__init__.__code__.co_names
    assert {"response_complete", "disconnected", "message_event"} <= set(cycle)
    assert hasattr(_types, "ASGISendEvent")
    assert issubclass(ClientDisconnected, OSError)


@pytest.mark.parametrize("callback", ["on_url", "on_header"])
def test_a_value_error_in_a_parser_callback_ends_in_send_400_response(callback: str) -> None:
    """`HttpProtocol._count_head` stops the parser so."""
    protocol, sent = made(HttpToolsProtocol), []

    def refuse(*_: bytes) -> None:
        raise ValueError

    setattr(protocol, callback, refuse)
    protocol.send_400_response = sent.append
    protocol.data_received(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
    assert len(sent) == 1


def test_data_to_send_takes_the_pong_that_the_parser_queued() -> None:
    """`WebsocketProtocol.handle_ping` drops it so."""
    connection = ServerProtocol(state=State.OPEN)
    connection.receive_data(Frame(Opcode.PING, b"hello").serialize(mask=True, extensions=[]))
    assert connection.data_to_send() == [Frame(Opcode.PONG, b"hello").serialize(mask=False, extensions=[])]
    assert connection.data_to_send() == []


def test_fail_queues_a_close_frame_with_the_code() -> None:
    """`WebsocketProtocol.handle_cont` ends a message of too many fragments so."""
    connection = ServerProtocol(state=State.OPEN)
    connection.fail(1009, "too many fragments")
    close = Frame(Opcode.CLOSE, b"\x03\xf1too many fragments")
    assert connection.data_to_send()[0] == close.serialize(mask=False, extensions=[])


def test_a_connection_shows_its_events_and_what_is_unfinished() -> None:
    """`WebsocketProtocol` looks at both without taking them."""
    connection = ServerProtocol(state=State.OPEN)
    frame = Frame(Opcode.TEXT, b"hello", fin=False).serialize(mask=True, extensions=[])
    connection.receive_data(frame[:4])
    assert (connection.events, len(connection.reader.buffer), connection.current_size) == ([], 2, None)
    connection.receive_data(memoryview(frame[4:]))  # type: ignore[arg-type]
    assert (len(connection.events), len(connection.reader.buffer), connection.current_size) == (1, 0, 5)
    last = Frame(Opcode.CONT, b"").serialize(mask=True, extensions=[])
    connection.receive_data(last)
    assert connection.current_size is None


def test_a_handshake_shows_its_error_and_can_be_checked_twice() -> None:
    """`upgrades.handshake_error` checks it before uvicorn does."""
    connection = ServerProtocol()
    connection.receive_data(WEBSOCKET_HEAD + b"\r\n")
    (request,) = connection.events
    assert connection.process_request(request) == connection.process_request(request)
    assert connection.accept(request).status_code == 101
    connection = ServerProtocol()
    connection.receive_data(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (MAX_NUM_HEADERS + 1) + b"\r\n")
    assert isinstance(connection.handshake_exc, TooManyHeaders)
    assert connection.events == []


def test_a_parser_stops_where_another_protocol_is_offered() -> None:
    """`HttpProtocol._unsupported_upgrade_warning` is called then, and reads the request again."""
    calls = []

    class Offered(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            calls.append("headers")

        def on_message_complete(self) -> None:
            calls.append("message")

        def _unsupported_upgrade_warning(self) -> None:
            assert self.parser.should_upgrade()
            calls.append(self.url.decode())

    head = b"POST /a HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 1\r\n\r\n"
    made(Offered).data_received(head)
    assert calls == ["headers", "message", "/a"]


def test_an_application_runs_in_the_task_that_is_overridden() -> None:
    """`HttpProtocol._start_asgi_task` passes it another application."""
    assert list(inspect.signature(HttpToolsProtocol._start_asgi_task).parameters) == ["self", "cycle", "app"]
