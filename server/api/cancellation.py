"""Cancellation of a request's work, when it takes too long or its client closes the connection."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import Request

from scanline.server.api.errors import NO_RETRY, ApiError, ClientGoneError

Result = TypeVar("Result")


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Cancel what is awaited in the context after `seconds`, and raise ApiError 504 then."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        message = f"The request exceeded the server's limit of {seconds:g} seconds."
        raise ApiError(504, message, code="request_timeout", headers=NO_RETRY) from None


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`; cancel it and raise ClientGoneError if the client of `request` disconnects.

    The body of `request` must have been read: the next message is then the disconnect.
    """
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        for unfinished in (task, disconnect):
            unfinished.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
