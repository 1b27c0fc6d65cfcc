"""The private parts of uvicorn and websockets that server/api/transport relies on, each by its name.

pyproject.toml pins both to a range; when a range is widened, a failure here says which part has changed.
"""

from typing import Any

import pytest
from uvicorn import _types
from uvicorn.config import Config
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

HTTP = [
    "_unset_keepalive_if_required",
    "connection_lost",
    "connection_made",
    "cycle",
    "data_received",
    "handle_websocket_upgrade",
    "headers",
    "loop",
    "on_body",
    "on_header",
    "on_headers_complete",
    "on_message_begin",
    "on_message_complete",
    "on_url",
    "send_400_response",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "timeout_keep_alive_task",
    "transport",
]
WEBSOCKET = [
    "close_sent",
    "conn",
    "frames",
    "handle_cont",
    "handle_parser_exception",
    "handle_ping",
    "handshake_complete",
    "send",
    "writable",
]


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers nothing."""


def made(kind: type[Any]) -> Any:
    """A protocol without a connection."""
    return kind(Config(nothing, log_config=None), ServerState(), {}, _loop=object())


def test_both_protocols_have_what_is_overridden() -> None:
    for kind, names in ((HttpToolsProtocol, HTTP), (WebSocketsSansIOProtocol, WEBSOCKET)):
        assert [name for name in names if not hasattr(made(kind), name)] == []


def test_modules_have_what_is_imported() -> None:
    assert httptools_impl.STATUS_LINE[431].startswith(b"HTTP/1.1 431 ")
    assert "response_complete" in httptools_impl.RequestResponseCycle.__init__.__code__.co_names
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
