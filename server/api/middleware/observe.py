"""The log line, the counters and the span of every request and every websocket,
from one wrapper of send and receive.

Other parts (client, key's name, model, images, seed, error code) bind their fields to the log's
context, from which they are read. Label values are bounded: standard methods, the routes' own
paths, statuses, error codes, names of keys.
"""

import logging
import time
from collections import Counter
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import get_contextvars

from scanline.server.api.base.client import client_of
from scanline.server.api.base.tracing import name_request_span
from scanline.server.api.middleware.server_middleware import ServerMiddleware

log = logging.getLogger("scanline.requests")

RESPONSE_STARTS = frozenset(
    {"http.response.start", "websocket.accept", "websocket.http.response.start"}
)
RESPONSE_BODIES = frozenset({"http.response.body", "websocket.http.response.body"})
COUNTED_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
# logged at debug, also when a server is not ready
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


class HttpCounters:
    """Counts since the server started."""

    def __init__(self) -> None:
        self.responses: Counter[tuple[str, str, int]] = Counter()  # by method, path and status
        # requests and websockets, by the name of their API key
        self.by_key: Counter[str] = Counter()
        # by code: of requests, refused websockets, and jobs on open ones
        self.errors: Counter[str] = Counter()
        self.open_websockets = 0  # kept by WebsocketLimitMiddleware


@dataclass
class Exchange:
    """One request or websocket, as far as it has come."""

    method: str
    status: int = 0  # 0: no response was started
    sent: int = 0  # bytes of the body, or of all messages
    # answered, disconnected (by the client), closed CODE, broken (by an exception)
    ended: str = "broken"

    def on_send(self, message: Message) -> None:
        kind = message["type"]
        if kind in RESPONSE_STARTS:
            self.status = 101 if kind == "websocket.accept" else message["status"]
        elif kind in RESPONSE_BODIES:
            self.sent += len(message.get("body", b""))
            if not message.get("more_body", False) and self.ended == "broken":
                self.ended = "answered"
        elif kind == "websocket.send":
            self.sent += len(message.get("bytes") or message.get("text") or b"")
        elif kind == "websocket.close":
            self.ended = f"closed {message.get('code', 1000)}"

    def on_receive(self, message: Message) -> None:
        if message["type"] == "http.disconnect" and self.ended != "answered":
            self.ended = "disconnected"
        elif message["type"] == "websocket.disconnect" and self.status == 101:
            self.ended = f"closed {message.get('code', 1005)}"


@dataclass(eq=False)
class ObservingMiddleware(ServerMiddleware):
    """Logs and counts what passes through it, and names its spans."""

    counters: HttpCounters

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        exchange = Exchange(scope.get("method", "WEBSOCKET"))

        async def observed_send(message: Message) -> None:
            exchange.on_send(message)
            if exchange.ended == "answered":  # the span ends with the last byte
                name_request_span(exchange.method, _path(scope))
            await send(message)

        async def observed_receive() -> Message:
            message = await receive()
            exchange.on_receive(message)
            return message

        try:
            await self.app(scope, observed_receive, observed_send)
        finally:
            path = _path(scope)
            self._count(scope, exchange, path)
            _log(exchange, path, time.monotonic() - began)
            if exchange.ended != "answered":
                name_request_span(exchange.method, path)

    def _count(self, scope: Scope, exchange: Exchange, path: str) -> None:
        if (key := client_of(scope).key) is not None:
            self.counters.by_key[key] += 1
        if scope["type"] == "http":
            method = exchange.method if exchange.method in COUNTED_METHODS else "other"
            self.counters.responses[method, path, exchange.status or 500] += 1
        if code := get_contextvars().get("error"):
            self.counters.errors[code] += 1


def _path(scope: Scope) -> str:
    """Return the route's own path, also of a request that was refused before a
    route was looked for, unless the path has parameters; any other is "other",
    since a client's paths have no bound."""
    if route := scope.get("route"):
        return str(route.path)
    return str(scope["path"]) if scope["path"] in scope["app"].state.paths else "other"


def _log(exchange: Exchange, path: str, seconds: float) -> None:
    level = logging.INFO
    if exchange.status == 500:
        level = logging.ERROR
    elif path in PROBES and exchange.status in (200, 503):
        level = logging.DEBUG
    fields = {
        "method": exchange.method,
        "path": path,
        "status": exchange.status,
        "bytes": exchange.sent,
    }
    log.log(
        level, "request", extra={**fields, "seconds": round(seconds, 6), "ended": exchange.ended}
    )
