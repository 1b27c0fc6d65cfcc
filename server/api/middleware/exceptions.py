"""What nothing else has answered is answered here, in the one shape; pure ASGI, around all that may fail.

The framework's own place for that lies outside of every middleware: there an answer had no id and was not counted.
"""

import logging

from fastapi import WebSocketDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scanline.server.api.errors import ApiError, from_exception, refuse
from scanline.server.api.middleware.asgi import STARTS

log = logging.getLogger("scanline.server")


class CatchFaults:
    """500 for faults of our own; 404 for websockets to nowhere, which the framework only closes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            if message["type"] == "websocket.close" and not started:
                await refuse(ApiError(404, "There is nothing at this address.", code="not_found"), scope, receive, send)
                return
            started = started or message["type"] in STARTS
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except WebSocketDisconnect:
            return
        except Exception as error:
            told = from_exception(error)
            if not started:
                await refuse(told, scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1011})
