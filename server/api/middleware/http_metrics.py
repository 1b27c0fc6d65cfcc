"""Counts what is answered over HTTP: pure ASGI, outside all else, so that refusals of other parts are counted too.

Keys are bounded: methods of the standard, the routes' own paths, statuses, codes of errors.
"""

from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import get_contextvars

from scanline.server.api.middleware.asgi import path_of

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class HttpCounters:
    """Answers by method, path and status, errors by code, and open websockets."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, str, int]] = Counter()
        self.errors: Counter[str] = Counter()  # of requests, websockets that were not opened, and jobs on others
        self.websockets = 0


class CountHttp:
    """Writes what passes into a counters."""

    def __init__(self, app: ASGIApp, counters: HttpCounters) -> None:
        self.app, self.counters = app, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            self.counters.websockets += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self.counters.websockets -= 1
                self._error()
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500  # of what breaks before it answers

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.counters.answers[method, path_of(scope), status] += 1
            self._error()

    def _error(self) -> None:
        if code := get_contextvars().get("error"):
            self.counters.errors[code] += 1
