"""Refuses a request body that is too large, by its declared length or as it comes, or too slow; pure ASGI."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import ApiError, refuse

FIELDS_ONLY = frozenset({"/v1/images/generations"})  # a body without pictures
MOST_OF_FIELDS = 1_000_000  # bytes


class BodyLimit:
    """413 for bodies of more than `most` bytes, 408 for those that take longer than so many seconds to come."""

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self.app, self.most, self.seconds = app, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most = min(self.most, MOST_OF_FIELDS) if scope["path"] in FIELDS_ONLY else self.most
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > most:
            await refuse(_too_large(most), scope, receive, send)
            return
        read, more, latest = 0, True, asyncio.get_running_loop().time() + self.seconds

        async def limited() -> Message:
            nonlocal read, more
            if not more:  # what is awaited now is the client's departure
                return await receive()
            try:
                async with asyncio.timeout_at(latest):
                    message = await receive()
            except TimeoutError:
                raise self._too_slow from None
            more = message.get("more_body", False)
            read += len(message.get("body", b""))
            if read > most:
                raise _too_large(most)
            return message

        await self.app(scope, limited, send)

    @property
    def _too_slow(self) -> ApiError:
        message = f"The request took longer than {self.seconds:g} seconds to come."
        return ApiError(408, message, code="receive_timeout", headers={"connection": "close"})


def _too_large(most: int) -> ApiError:
    message = f"The body is larger than {most} bytes."
    return ApiError(413, message, code="body_too_large", headers={"connection": "close"})
