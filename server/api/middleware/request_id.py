"""x-request-id: the client's own where it is sane, made where not; on every answer and in every line of the log.

Pure ASGI, the outermost of all: what others refuse has its id too.
"""

import re
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, clear_contextvars

from scanline.server.api.middleware.asgi import STARTS

HEADER = b"x-request-id"
SANE = re.compile(rb"[A-Za-z0-9_.:=+/@-]{1,128}")


class RequestIds:
    """Names every request and websocket."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        name = dict(scope["headers"]).get(HEADER, b"")
        if not SANE.fullmatch(name):
            name = made()
        clear_contextvars()  # on a pipelining connection, what was known of the request before
        bind_contextvars(request_id=name.decode())

        async def named(message: Message) -> None:
            if message["type"] in STARTS:
                message = {**message, "headers": [*message.get("headers", ()), (HEADER, name)]}
            await send(message)

        await self.app(scope, receive, named)


def made() -> bytes:
    """An id of our own."""
    return uuid4().hex.encode()
