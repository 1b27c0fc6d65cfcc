"""Cancellation of a request's work, when it takes too long or its client closes the connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request

from scanline.server.api.base.errors import NO_RETRY, ApiError, ClientGoneError


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Cancel what is awaited in the context after `seconds`, and raise ApiError 504 then."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        message = f"The request exceeded the server's limit of {seconds:g} seconds."
        raise ApiError("request_timeout", message, headers=NO_RETRY) from None


@asynccontextmanager
async def until_disconnect(request: Request) -> AsyncIterator[None]:
    """Cancel what is awaited in the context when the client of `request`
    disconnects, and raise ClientGoneError then.

    The body of `request` must have been read: the next message is then the disconnect.
    """
    timeout = asyncio.timeout(None)

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        timeout.reschedule(0)

    watching = None
    try:
        async with timeout:
            watching = asyncio.create_task(watch())
            yield
    except TimeoutError:
        if timeout.expired():
            raise ClientGoneError from None
        raise
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
