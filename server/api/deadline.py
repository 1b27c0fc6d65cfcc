"""A request's own deadline: past it the engine forgets the request, and its client is told so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scanline.server.api.errors import AGAIN_IS_NO_BETTER, ApiError


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Cancels what is awaited within after so many seconds; 504 then."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        message = f"The request took longer than the {seconds:g} seconds that it may take here."
        raise ApiError(504, message, code="request_timeout", headers=AGAIN_IS_NO_BETTER) from None
