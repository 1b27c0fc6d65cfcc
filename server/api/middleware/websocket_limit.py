"""How many websockets may be open at once: one more is refused before it is accepted; pure ASGI."""

from starlette.types import ASGIApp, Receive, Scope, Send

from scanline.server.api.errors import ApiError, refuse


class WebsocketLimit:
    """503 for websockets beyond `most`."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most, self.open = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        if self.open >= self.most:
            message = f"All {self.most} websockets of this server are in use; try again in a moment."
            error = ApiError(503, message, code="too_many_websockets", headers={"retry-after": "2"})
            await refuse(error, scope, receive, send)
            return
        self.open += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.open -= 1
