"""x-request-id: the client's own if it is well-formed, else a new one; on
every response and in every log line.

The outermost middleware: what another one refuses has its id too.
"""

import re
from uuid import uuid4

from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, clear_contextvars

from scanline.server.api.middleware.observe import RESPONSE_STARTS
from scanline.server.api.middleware.server_middleware import ServerMiddleware

HEADER = b"x-request-id"
WELL_FORMED = re.compile(rb"[A-Za-z0-9_.:=+/@-]{1,128}")


class RequestIdMiddleware(ServerMiddleware):
    """Give every request and websocket an id."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = dict(scope["headers"]).get(HEADER, b"")
        if not WELL_FORMED.fullmatch(request_id):
            request_id = new_request_id()
        clear_contextvars()  # on a pipelining connection: what the previous request bound
        bind_contextvars(request_id=request_id.decode())

        async def send_with_id(message: Message) -> None:
            if message["type"] in RESPONSE_STARTS:
                message = {
                    **message,
                    "headers": [*message.get("headers", ()), (HEADER, request_id)],
                }
            await send(message)

        await self.app(scope, receive, send_with_id)


def new_request_id() -> bytes:
    return uuid4().hex.encode()
