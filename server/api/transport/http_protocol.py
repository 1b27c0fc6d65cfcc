"""Our hold on uvicorn's HTTP/1.1: how long a head may be, how long a request may take to come, errors in the one shape.

uvicorn bounds neither: a head without end would be kept until memory is, a client that says nothing would stay.
"""

import asyncio
import json
import logging
from asyncio.events import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from scanline.server.api.errors import ApiError
from scanline.server.api.middleware.http_metrics import HttpCounters
from scanline.server.api.middleware.request_id import HEADER, made
from scanline.server.api.middleware.security_headers import COMMON

log = logging.getLogger("scanline.requests")


class HttpProtocol(HttpToolsProtocol):
    """One connection, until it is closed or becomes a websocket."""

    max_head_bytes: int
    receive_timeout: float  # seconds for one request, head and body
    counters: HttpCounters

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head_bytes = 0  # of the request that comes: its line and headers
        self.unheard = 0  # bytes since the parser last told of anything
        self.heard = False
        self.in_head = False
        self.refusal: ApiError | None = None
        self.timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.heard = False
        super().data_received(data)
        self.unheard = 0 if self.heard else self.unheard + len(data)
        if self.unheard > self.max_head_bytes and not self.transport.is_closing():
            self.refusal = self._too_long()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.heard = self.in_head = True
        self.head_bytes = 0
        if self.timer is None:
            self._arm()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(name + value)

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.heard = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._disarm()
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:  # refused before its body was here: idle from now
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def handle_websocket_upgrade(self) -> None:
        self._disarm()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Ends the connection with what is wrong; what is not HTTP has no request to be answered."""
        refusal = self.refusal or ApiError(400, "This is not a valid HTTP request.", code="invalid_http")
        self.counters.errors[refusal.code or "other"] += 1
        name = made()
        facts = {"method": "other", "path": "other", "status": refusal.status, "error": refusal.code}
        log.info("request", extra={**facts, "request_id": name.decode(), "ended": "refused"})
        if self.cycle is None or self.cycle.response_complete:  # else it would stand in the middle of another answer
            self.transport.write(_answer(refusal, name))
        self.transport.close()

    def _count(self, told: bytes) -> None:
        """More of a head, or of the headers behind a chunked body."""
        self.heard = True
        self.head_bytes += len(told)
        if self.head_bytes > self.max_head_bytes:
            self.refusal = self._too_long()
            raise ValueError(self.refusal.message)  # the parser stops, and uvicorn asks for a 400

    def _too_long(self) -> ApiError:
        if self.in_head and not self.headers:
            message = f"The address is longer than {self.max_head_bytes} bytes."
            return ApiError(414, message, code="address_too_long")
        message = f"The headers are longer than {self.max_head_bytes} bytes."
        return ApiError(431, message, code="headers_too_long")

    def _arm(self) -> None:
        self.timer = self.loop.call_later(self.receive_timeout, self._late)

    def _disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _late(self) -> None:
        """The request has not come in time: without a head nobody else would say so."""
        self.timer = None
        if self.transport.is_closing():
            return
        if self.in_head:
            message = f"The request took longer than {self.receive_timeout:g} seconds to come."
            self.refusal = ApiError(408, message, code="receive_timeout")
            self.send_400_response("")
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:  # its body is late: who reads it says so
            self._arm()


def _answer(error: ApiError, name: bytes) -> bytes:
    body = json.dumps(error.body, separators=(",", ":")).encode()
    head = {
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
        b"connection": b"close",
        HEADER: name,
        **dict(COMMON),
    }
    return b"".join([STATUS_LINE[error.status], *(b"%s: %s\r\n" % pair for pair in head.items()), b"\r\n", body])
