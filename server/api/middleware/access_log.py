"""One line of the log for each request and each websocket, told when it is over; pure ASGI.

What only the routes know of it (model, images, seed, the error's code) they bind to the log's context. Probes and
scrapes are told at level debug, also those that hear that a server is not ready: its engines say why.
"""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scanline.server.api.middleware.asgi import STARTS, method_of, path_of, status_of

log = logging.getLogger("scanline.requests")

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
BODIES = frozenset({"http.response.body", "websocket.send", "websocket.http.response.body"})


class LogRequests:
    """Writes a line for what passes: method, the route's own path, status, seconds, bytes sent, how it ended."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        began, status, sent, ended = time.monotonic(), 0, 0, "broken"

        async def watched(message: Message) -> None:
            nonlocal status, sent, ended
            kind = message["type"]
            if kind in STARTS:
                status = status_of(message)
            elif kind in BODIES:
                sent += len(message.get("body") or message.get("bytes") or message.get("text") or b"")
                if kind != "websocket.send" and not message.get("more_body", False) and ended == "broken":
                    ended = "answered"
            elif kind == "websocket.close":
                ended = f"closed {message.get('code', 1000)}"
            await send(message)

        async def heard() -> Message:
            nonlocal ended
            message = await receive()
            if message["type"] == "http.disconnect" and ended != "answered":
                ended = "departed"
            elif message["type"] == "websocket.disconnect" and status == 101:
                ended = f"closed {message.get('code', 1005)}"
            return message

        try:
            await self.app(scope, heard, watched)
        finally:
            path = path_of(scope)
            facts = {"method": method_of(scope), "path": path, "status": status, "bytes": sent}
            facts |= {"seconds": round(time.monotonic() - began, 6), "ended": ended}
            log.log(_level(path, status), "request", extra=facts)


def _level(path: str, status: int) -> int:
    if status == 500:
        return logging.ERROR
    return logging.DEBUG if path in QUIET and status in (200, 503) else logging.INFO
