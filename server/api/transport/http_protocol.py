"""uvicorn's HTTP/1.1 protocol with limits of a request's head and time, and its 400 in the one error shape.

uvicorn itself bounds neither: an endless head would be kept in memory, a client that sends nothing would stay
connected. Relies on private parts of uvicorn, which tests/server/api/transport/test_private_parts.py lists.
"""

import asyncio
import json
import logging
from asyncio.events import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from scanline.server.api.errors import ApiError
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.middleware.request_id import HEADER, new_request_id
from scanline.server.api.middleware.security_headers import SECURITY_HEADERS

log = logging.getLogger("scanline.requests")


class HttpProtocol(HttpToolsProtocol):
    """One connection, until it is closed or becomes a websocket."""

    max_head_bytes: int
    receive_timeout: float  # seconds for one request, head and body
    counters: HttpCounters

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head_bytes = 0  # of the current request: its URL and headers so far
        self.parser_called_back = False  # during the current data_received
        self.bytes_without_callback = 0  # received since the parser last called back
        self.in_head = False
        self.error: ApiError | None = None  # what send_400_response answers
        self.receive_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_receive_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_receive_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.parser_called_back = False
        super().data_received(data)
        # The parser keeps an unfinished header itself and calls back at its end: bytes that it took without a callback
        # are bounded here, all others in _count_head.
        self.bytes_without_callback = 0 if self.parser_called_back else self.bytes_without_callback + len(data)
        if self.bytes_without_callback > self.max_head_bytes and not self.transport.is_closing():
            self.error = self._head_too_long()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.parser_called_back = self.in_head = True
        self.head_bytes = 0
        if self.receive_timer is None:
            self._start_receive_timer()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_head(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count_head(name + value)

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.parser_called_back = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_receive_timer()
        super().on_message_complete()
        # A request was refused before its body had arrived: uvicorn started its keep-alive timer with the response,
        # and the rest of the body cancelled it. The connection is idle only now.
        if self.cycle is not None and self.cycle.response_complete:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def handle_websocket_upgrade(self) -> None:
        self._stop_receive_timer()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refused, in place of uvicorn's plain text, log and count it, close the connection.

        No request exists yet, so no middleware sees it.
        """
        error = self.error or ApiError(400, "Invalid HTTP request.", code="invalid_http")
        self.counters.errors[error.code or "other"] += 1
        request_id = new_request_id()
        fields = {"method": "other", "path": "other", "status": error.status, "error": error.code}
        log.info("request", extra={**fields, "request_id": request_id.decode(), "ended": "refused"})
        if self.cycle is None or self.cycle.response_complete:  # else it would be in the middle of another response
            self.transport.write(_response(error, request_id))
        self.transport.close()

    def _count_head(self, part: bytes) -> None:
        """Count a part of the head, or of the trailers of a chunked body, and stop the parser if they are too long.

        This is called by the parser, in C. A ValueError here makes `feed_data` raise HttpParserCallbackError;
        uvicorn's data_received catches that and calls `send_400_response`, which answers `self.error`.
        """
        self.parser_called_back = True
        self.head_bytes += len(part)
        if self.head_bytes > self.max_head_bytes:
            self.error = self._head_too_long()
            raise ValueError(self.error.message)

    def _head_too_long(self) -> ApiError:
        if self.in_head and not self.headers:
            message = f"The URL is longer than {self.max_head_bytes} bytes."
            return ApiError(414, message, code="address_too_long")
        message = f"The headers are longer than {self.max_head_bytes} bytes."
        return ApiError(431, message, code="headers_too_long")

    def _start_receive_timer(self) -> None:
        self.receive_timer = self.loop.call_later(self.receive_timeout, self._on_receive_timeout)

    def _stop_receive_timer(self) -> None:
        if self.receive_timer is not None:
            self.receive_timer.cancel()
            self.receive_timer = None

    def _on_receive_timeout(self) -> None:
        self.receive_timer = None
        if self.transport.is_closing():
            return
        if self.in_head:
            # There is no request yet, so the body's limit cannot answer.
            message = f"The request was not received within {self.receive_timeout:g} seconds."
            self.error = ApiError(408, message, code="receive_timeout")
            self.send_400_response("")
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:  # its body is late: BodyLimitMiddleware answers that
            self._start_receive_timer()


def _response(error: ApiError, request_id: bytes) -> bytes:
    body = json.dumps(error.body, separators=(",", ":")).encode()
    headers = {
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
        b"connection": b"close",
        HEADER: request_id,
        **SECURITY_HEADERS,
    }
    lines = [b"%s: %s\r\n" % pair for pair in headers.items()]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body])
