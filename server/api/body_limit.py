"""Refuses a request body that is too large, by its declared length or as it comes; pure ASGI."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import ApiError, refuse


class BodyLimit:
    """413 for bodies of more than `most` bytes."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.most:
            await refuse(self._error, scope, receive, send)
            return
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most:
                raise self._error
            return message

        await self.app(scope, limited, send)

    @property
    def _error(self) -> ApiError:
        return ApiError(
            413, f"The body is larger than {self.most} bytes.", code="body_too_large", headers={"connection": "close"}
        )
