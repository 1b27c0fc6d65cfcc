"""Exceptions of the application as error responses.

Starlette's own handler of exceptions lies outside of all middleware: its response would have no
request id and would not be counted.
"""

from fastapi import WebSocketDisconnect
from starlette.types import Message, Receive, Scope, Send

from scanline.server.api.base.errors import ApiError, from_exception, refuse
from scanline.server.api.middleware.observe import RESPONSE_STARTS
from scanline.server.api.middleware.server_middleware import ServerMiddleware


class ExceptionMiddleware(ServerMiddleware):
    """Answer 500 to an unexpected exception, and 404 to a websocket without a
    route, which starlette only closes.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noting_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "websocket.close" and not started:
                await refuse(ApiError("not_found", "Not found."), scope, receive, send)
                return
            started = started or message["type"] in RESPONSE_STARTS
            await send(message)

        try:
            await self.app(scope, receive, noting_send)
        except WebSocketDisconnect:
            return
        except Exception as exception:
            error = from_exception(exception)
            if not started:
                await refuse(error, scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1011})
