"""Refuses a request body that is too large, by its declared length or as it comes, or too slow; pure ASGI."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scanline.server.api.errors import ApiError, refuse

FIELDS_ONLY = frozenset({"/v1/images/generations"})  # a body without pictures
MOST_OF_FIELDS = 1_000_000  # bytes
PASSED_OVER = 4  # times the limit; of a body that is larger yet, nothing more is read


class BodyLimit:
    """413 for bodies of more than `most` bytes, 408 for those that take longer than so many seconds to come."""

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self.app, self.most, self.seconds = app, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most = min(self.most, MOST_OF_FIELDS) if scope["path"] in FIELDS_ONLY else self.most
        headers, latest = dict(scope["headers"]), asyncio.get_running_loop().time() + self.seconds
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > most:
            if b"expect" not in headers and int(declared) <= most * PASSED_OVER:
                await _pass_over(receive, int(declared), latest)
            await refuse(_too_large(most), scope, receive, send)
            return
        read, more = 0, True

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
                if more:
                    await _pass_over(receive, most * PASSED_OVER - read, latest)
                raise _too_large(most)
            return message

        await self.app(scope, limited, send)

    @property
    def _too_slow(self) -> ApiError:
        message = f"The request took longer than {self.seconds:g} seconds to come."
        return ApiError(408, message, code="receive_timeout", headers={"connection": "close"})


async def _pass_over(receive: Receive, most: int, latest: float) -> None:
    """Lets the rest of a body come: whoever still sends when the connection is closed may never read the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(latest):
            while most > 0 and (message := await receive()).get("more_body", False):
                most -= len(message["body"])


def _too_large(most: int) -> ApiError:
    message = f"The body is larger than {most} bytes."
    return ApiError(413, message, code="body_too_large", headers={"connection": "close"})
