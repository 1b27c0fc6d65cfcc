"""uvicorn's HTTP/1.1 protocol with limits of a request's head and time, one
request at a time, and our error answers.

uvicorn itself bounds neither heads nor pipelined requests: it begins as many as fit
into what was received, and a client that sends nothing would stay connected. It
relies on private parts of uvicorn.
"""

import asyncio
import re
import ssl
from asyncio.events import TimerHandle
from asyncio.sslproto import SSLProtocol
from functools import partial
from typing import Any

import httptools
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from scanline.server.api.base.errors import NO_RETRY, RETRY_SOON, ApiError
from scanline.server.api.base.rate_limit import CONNECTION_SECONDS, CONNECTION_UNITS
from scanline.server.api.transport.client_transport import BUFFER, ClientTransport
from scanline.server.api.transport.connections import Connections
from scanline.server.api.transport.http10 import send_to_http10
from scanline.server.api.transport.message_ends import MessageEnds
from scanline.server.api.transport.refusals import head_too_long, record_refusal, response_bytes
from scanline.server.api.transport.upgrades import head_without_upgrade

MAX_BUFFERED_BYTES = 65_536  # behind a request that is not answered; then reading pauses
MAX_SLICES = 64  # given to the parser in one turn of the event loop
# of a chunked body that are parsed at once: chunks of one byte are 1,365 callbacks, 2 ms
CHUNKED_BYTES = 8192
PART_BYTES = 512  # of a body: smaller parts, as chunks or as packets, are overhead
PARTS_PER_UNIT = 200  # of overhead
MAX_HEADERS = 256
HEADER_BYTES = 4  # of a header besides its name and value
# of each byte of an unfinished head: a header of some 120 bytes takes as much again, twice
HEAD_COPIES = 3
HOST = re.compile(rb"[!-~]*")  # hosts.py reads it
CLOSE = (b"connection", b"close")
HANDSHAKE_SECONDS = 10.0  # of TLS
# bytes of each connection's buffer, two TLS records; asyncio has 256 KiB
SSLProtocol.max_size = 32_768


class HttpProtocol(HttpToolsProtocol):
    """One connection, until it is closed or becomes a websocket."""

    max_head_bytes: int
    receive_timeout: float  # seconds for one request, head and body
    all_connections: Connections
    tls: ssl.SSLContext | None = None
    transport: ClientTransport

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head_bytes = 0  # of the current request: its URL and headers so far
        self.head_headers = 0  # of the current request so far
        self.body_bytes = 0  # of the current request, until it is answered
        self.body_parts = 0  # that the parser has called back for during the current slice
        self.had_request = False  # whether a request has ever begun, or the connection was refused
        self.handshake: asyncio.Task[None] | None = None  # of TLS
        self.parser_called_back = False  # during the current slice
        self.bytes_without_callback = 0  # given to the parser since it last called back
        self.in_message = self.in_head = self.is_websocket = False
        self.ignores_upgrade = False  # of the current request
        # whether the current request asks for it, as those of HTTP/1.1 do unless they say no
        self.keeps_alive = False
        self.ends = MessageEnds()
        self.buffered = b""  # received, and not given to the parser yet
        self.error: ApiError | None = None  # what send_400_response answers
        self.arrival_error: ApiError | None = None  # what the application's next receive() raises
        self.receive_timer: TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = wrapped = ClientTransport(transport, self.loop, self.all_connections)
        if not self.all_connections.budgets.connections.has_room(wrapped.client):
            message = (
                "Too many connections are open, of this client or of all; try again in a moment."
            )
            self.error = ApiError("too_many_connections", message, headers=RETRY_SOON)
            self.had_request = True
            # No answer is worth a handshake, or more of the time of a client that has had too much.
            if self.tls is None and not self.all_connections.budgets.overhead.delay(wrapped.client):
                super().connection_made(wrapped)
                wrapped.is_receiving = True
                self.send_400_response("")
            else:
                wrapped.refuse(self.error)
        elif self.tls is None:
            self._begin()
        else:
            transport.pause_reading()  # what comes is for the handshake
            self.handshake = self.loop.create_task(self._shake_hands(self.tls))

    def _begin(self) -> None:
        super().connection_made(self.transport)
        self._start_receive_timer()
        self.transport.hold_for_overhead()

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        """Begin TLS on a connection that is counted already; close it where that takes too long."""
        wrapped = self.transport
        await asyncio.sleep(
            min(CONNECTION_SECONDS, self.all_connections.budgets.overhead.delay(wrapped.client))
        )
        try:
            secure = await self.loop.start_tls(
                wrapped.inner,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError:  # all of its failures: of TLS, of the connection, of time
            secure = None
        if secure is None or wrapped.is_released:
            self._forget()
            return
        wrapped.inner = secure
        self._begin()
        self._parse_buffered()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_receive_timer()
        self._unset_keepalive_if_required()
        self._forget()
        super().connection_lost(exc)

    def _forget(self) -> None:
        """Give back what the connection holds; one that never carried a request is overhead."""
        if self.handshake is not None:
            self.handshake.cancel()
        if not self.had_request and not self.transport.is_released:
            self.all_connections.budgets.overhead.charge(self.transport.client, CONNECTION_UNITS)
        self.transport.release()

    def eof_received(self) -> None:
        """Cancel the running request: its client has closed its side,
        and asyncio closes the connection now.

        Without this, connection_lost would come only once everything written has been read.
        """
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.flow.resume_writing()

    def shutdown(self) -> None:
        super().shutdown()
        self.transport.close_for_shutdown()

    # What is received: given to the parser until a request is
    # complete, the rest once it is answered

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.buffered or self.flow is None:  # or the handshake has just ended
            self._buffer(self.buffered + data)
            return
        self.buffered = data
        if not self.transport.within_quota(self._parse_waiting):
            self._buffer(data)

    def on_response_complete(self) -> None:
        self.body_bytes = 0
        super().on_response_complete()
        self.transport.count_arriving(len(self.buffered))
        if self.buffered and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self.loop.call_soon(self._parse_buffered)

    def _parse_buffered(self) -> None:
        if self.buffered:
            self.transport.within_quota(self._parse_waiting)

    def _parse_waiting(self) -> None:
        data = self.buffered
        self.buffered = b""
        if data and not self.transport.is_closing():
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        start = slices = 0
        while start < len(data) and not self.transport.is_closing():
            if self.is_websocket:
                self.transport.get_protocol().data_received(data[start:])  # type: ignore[attr-defined]
                return
            if self._is_answering:
                break
            # more than that is no honest client's: others have their turn in between
            if slices == MAX_SLICES:
                self.loop.call_soon(self._parse_buffered)
                break
            limit = start + CHUNKED_BYTES if self._in_chunked_body else None
            end = self.ends.next(data, start, self.in_message, limit)
            self._parse_slice(data if end - start == len(data) else data[start:end])
            parts = self.body_parts - (end - start) / PART_BYTES
            start = end
            slices = slices + 1
            if parts > 0:
                seconds = self.transport.pay_overhead(parts / PARTS_PER_UNIT)
                if slices > 1 or seconds:
                    self.loop.call_later(seconds, self._parse_buffered)
                    break
        if not self.is_websocket:
            self._buffer(data[start:])

    def _buffer(self, data: bytes) -> None:
        self.buffered = data
        head_bytes = self.head_bytes + self.bytes_without_callback if self.in_head else 0
        self.transport.count_arriving(self.body_bytes + HEAD_COPIES * head_bytes + len(data))
        if len(data) > MAX_BUFFERED_BYTES:
            self.transport.hold(BUFFER)
        else:
            self.transport.unhold(BUFFER)

    @property
    def _in_chunked_body(self) -> bool:
        return self.in_message and not self.in_head and not self.ends.body_left

    def _parse_slice(self, data: bytes) -> None:
        self.parser_called_back = False
        self.body_parts = 0
        super().data_received(data)
        if self.is_websocket or self.transport.is_closing():
            return
        # The parser keeps an unfinished header itself and calls back at its end: bytes that it took
        # without a callback are bounded here, all others in _count_head.
        self.bytes_without_callback = (
            0 if self.parser_called_back else self.bytes_without_callback + len(data)
        )
        if self.bytes_without_callback > self.max_head_bytes:
            self.error = self._head_too_long()
            self.send_400_response("")
        elif (
            not self.in_message and not self._is_answering and self.timeout_keep_alive_task is None
        ):
            # after empty lines, which have ended the time of an idle connection
            self._start_receive_timer()

    @property
    def _is_answering(self) -> bool:
        """Whether a whole request was received that is not answered."""
        return not self.in_message and self.cycle is not None and not self.cycle.response_complete

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        # the parser ended a message where MessageEnds saw no end
        if self.in_message or self._is_answering:
            self.error = ApiError("invalid_http", "Invalid HTTP request.")
            raise ValueError(self.error.message)
        super().on_message_begin()
        self.parser_called_back = self.in_message = self.in_head = self.transport.is_receiving = (
            True
        )
        self.had_request = True
        self.head_bytes = self.head_headers = self.body_bytes = 0
        self.arrival_error = None
        self._start_receive_timer()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:  # a trailer is no header (RFC 9110, 6.5.1): it is counted and dropped
            super().on_header(name, value)
        self.head_headers += 1
        self._count_head(len(name) + len(value) + HEADER_BYTES)

    def on_headers_complete(self) -> None:
        self.in_head = False
        self.keeps_alive = self.parser.should_keep_alive()
        headers = dict(self.headers)
        self._check_head()
        if self.parser.should_upgrade() and self._should_upgrade():
            head = self.parser.get_method(), self.parser.get_http_version()
            if (
                head != (b"GET", "1.1")
                or {b"content-length", b"transfer-encoding"} & headers.keys()
            ):
                message = "A websocket is opened by a GET request of HTTP/1.1 without a body."
                self.error = ApiError("invalid_websocket_handshake", message)
                raise ValueError(message)
            super().on_headers_complete()
            return
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self.ignores_upgrade = True
            return
        super().on_headers_complete()
        if not self.parser.should_upgrade() and b"transfer-encoding" not in headers:
            self.ends.body_left = int(headers.get(b"content-length", 0))

    def _check_head(self) -> None:
        """Refuse what RFC 9112 says must be: other than one valid Host (3.2), and
        a coding that is not known (6.1).
        """
        version = self.parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        coding = (
            b",".join(value for name, value in self.headers if name == b"transfer-encoding")
            .strip()
            .lower()
        )
        is_right = len(hosts) == 1 or (not hosts and version == "1.0")
        if not is_right or not all(map(HOST.fullmatch, hosts)) or (version == "1.0" and coding):
            self.error = ApiError("invalid_http", "Invalid HTTP request.")
        elif coding and coding != b"chunked":
            message = "The request has a Transfer-Encoding other than chunked."
            self.error = ApiError("unknown_transfer_coding", message, headers=NO_RETRY)
        if self.error is not None:
            raise ValueError(self.error.message)

    def on_body(self, body: bytes) -> None:
        self.parser_called_back = True
        self.body_parts += 1
        if self.arrival_error is None and not self.cycle.response_complete:
            self.body_bytes += len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.ignores_upgrade or (self.parser.should_upgrade() and self._should_upgrade()):
            return
        self.in_message = self.transport.is_receiving = False
        self._stop_receive_timer()
        self.transport.exhaust_quota()
        super().on_message_complete()
        # A request was refused before its body had arrived: uvicorn started its keep-alive timer
        # with the response, and the rest of the body cancelled it. The connection is idle only now.
        if self.cycle is not None and self.cycle.response_complete:
            self._unset_keepalive_if_required()
            idle = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
            self.timeout_keep_alive_task = idle

    # Upgrades

    def handle_websocket_upgrade(self) -> None:
        self._stop_receive_timer()
        self.is_websocket = True
        self.transport.is_receiving = False
        self.transport.count_arriving(0)
        self.transport.exhaust_quota()
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request as if it offered no other protocol, as RFC 9110 allows; clients do
        offer h2c with bodies. The parser takes what follows for the other protocol, so that
        another one reads the request again."""
        if not self.ignores_upgrade:  # a CONNECT, which has been refused as any unknown method
            return
        self.ignores_upgrade = self.in_message = False
        head = head_without_upgrade(
            self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers
        )
        self.parser = httptools.HttpRequestParser(self)
        super().data_received(head)

    # Refusals

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refused, in place of uvicorn's plain text; log
        and count it, close the connection.
        """
        error = self.error or ApiError("invalid_http", "Invalid HTTP request.")
        request_id = record_refusal(
            error, self.all_connections, self.transport.address, error.status
        )
        # Else it would be in the middle of another response.
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(response_bytes(error, request_id))
        self.eof_received()
        self.transport.is_receiving = True
        self.transport.close()

    def refuse_arriving(self) -> bool:
        """Refuse the head that is arriving, or let the application refuse the body; what is behind
        it waits for as long as that runs."""
        message = "Too many bytes of requests are arriving, of this client or of all; try again in a moment."
        headers = {**RETRY_SOON, "connection": "close"}
        error = ApiError("too_much_arriving", message, headers=headers)
        if self.in_head:
            self.error = error
            self.send_400_response("")
            return True
        if not self.in_message or self.cycle is None or self.cycle.response_complete:
            return False
        self.arrival_error = error
        self.cycle.message_event.set()
        return True

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.transport.exhaust_quota()
        super()._start_asgi_task(cycle, partial(self._run, app, cycle))

    async def _run(
        self, app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async def receive_or_refuse() -> Message:
            message = await receive()
            if self.arrival_error is not None and message.get("more_body", False):
                raise self.arrival_error
            return message

        async def send_and_drain(message: Message) -> None:
            """Return when there is room for more: uvicorn waits for it with the next part, which is
            then held besides those that are counted."""
            await send(message)
            if (
                message.get("more_body", False)
                and self.flow.write_paused
                and not cycle.disconnected
            ):
                await self.flow.drain()

        async def send_or_close(message: Message) -> None:
            """After an answer to a chunked body that has not ended,
            close: the rest of it may be endless.
            """
            if (
                message["type"] == "http.response.start"
                and self.cycle is cycle
                and self._in_chunked_body
            ):
                message = {**message, "headers": [*message.get("headers", ()), CLOSE]}
            await send_and_drain(message)

        inner = (
            send_to_http10(cycle, send_and_drain, self.keeps_alive)
            if scope["http_version"] == "1.0"
            else send_or_close
        )
        await app(scope, receive_or_refuse, inner)

    def _count_head(self, size: int) -> None:
        """Count a part of the head, or of the trailers of a chunked body, and stop the parser if
        they are too long. This is called by the parser, in C. A ValueError here makes `feed_data`
        raise HttpParserCallbackError; uvicorn's data_received catches that and calls
        `send_400_response`, which answers `self.error`."""
        self.parser_called_back = True
        self.head_bytes += size
        if self.head_headers > MAX_HEADERS:
            self.error = ApiError(
                "headers_too_long", f"The request has more than {MAX_HEADERS} headers."
            )
            raise ValueError(self.error.message)
        if self.head_bytes > self.max_head_bytes:
            self.error = self._head_too_long()
            raise ValueError(self.error.message)

    def _head_too_long(self) -> ApiError:
        return head_too_long(self.max_head_bytes, self.in_head and not self.headers)

    # The time of a request

    def _start_receive_timer(self) -> None:
        """Start the timer, unless it runs already."""
        self.receive_timer = self.receive_timer or self.loop.call_later(
            self.receive_timeout, self._on_receive_timeout
        )

    def _stop_receive_timer(self) -> None:
        if self.receive_timer is not None:
            self.receive_timer.cancel()
            self.receive_timer = None

    def _on_receive_timeout(self) -> None:
        self.receive_timer = None
        if self.transport.is_closing():
            return
        if self.in_head:  # there is no request yet: the body's limit cannot answer
            message = f"The request was not received within {self.receive_timeout:g} seconds."
            self.error = ApiError("receive_timeout", message)
            self.send_400_response("")
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:  # its body is late: BodyLimitMiddleware answers that
            self._start_receive_timer()
