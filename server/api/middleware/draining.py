"""Who is let in: everybody until the server drains, then nobody who wants work; pure ASGI.

Probes, metrics and whatever else only reads go on until the end. Whose time is up while it is answered is told so.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.server.api.errors import ApiError, from_exception, refuse
from scanline.server.api.sse import server_sent
from scanline.server.lifecycle import Lifecycle, TimeIsUpError

READING = frozenset({"GET", "HEAD", "OPTIONS"})
CLOSE = (b"connection", b"close")


def closed() -> ApiError:
    """What who comes too late is told."""
    message = "The server is shutting down; ask again, for the one that comes after it."
    return ApiError(503, message, code="shutting_down", headers={"retry-after": "2"})


class Door:
    """Counts in what wants work, and turns it away while the server drains."""

    def __init__(self, app: ASGIApp, lifecycle: Lifecycle) -> None:
        self.app, self.lifecycle = app, lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            send = self._last_of_its_connection(send)
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope.get("method") in READING:
            with self.lifecycle.presence():
                await self.app(scope, receive, send)
        elif self.lifecycle.draining.is_set():
            await _pass_over(scope, receive)
            await refuse(closed(), scope, receive, send)
        elif scope["type"] == "websocket":
            with self.lifecycle.presence():  # its jobs are the work
                await self.app(scope, receive, send)
        else:
            await self._work(scope, receive, send)

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None
        is_over = False

        async def watched(message: Message) -> None:
            nonlocal start, is_over
            if message["type"] == "http.response.start":
                start = message
            else:
                is_over = not message.get("more_body", False)
            await send(message)

        try:
            async with self.lifecycle.work():
                await self.app(scope, receive, watched)
        except TimeIsUpError as error:
            told = from_exception(error)
            if start is None:
                await refuse(told, scope, receive, send)
            elif not is_over and b"text/event-stream" in dict(start["headers"]).get(b"content-type", b""):
                bind_contextvars(error=told.code)
                await send({"type": "http.response.body", "body": server_sent("error", told.body)})

    def _last_of_its_connection(self, send: Send) -> Send:
        """Answers of a draining server end their connections, so that the next request finds another one."""

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start" and self.lifecycle.draining.is_set():
                message = {**message, "headers": [*message["headers"], CLOSE]}
            await send(message)

        return last


async def _pass_over(scope: Scope, receive: Receive) -> None:
    """Lets a body come: whoever still sends when the connection is closed may never read the answer."""
    if scope["type"] == "http" and b"expect" not in dict(scope["headers"]):
        while (await receive()).get("more_body", False):
            pass
