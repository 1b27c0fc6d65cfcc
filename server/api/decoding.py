"""Uploads are decoded beside the event loop where they are large: nobody else's pixels wait for them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")

AT_ONCE = 65_536  # bytes that are decoded in less time than a thread takes to be asked


async def decoded(pictures: Sequence[bytes | None], decode: Callable[[], Result]) -> Result:
    """What `decode` makes of the pictures, in a thread where these are many bytes."""
    if sum(len(picture) for picture in pictures if picture is not None) <= AT_ONCE:
        return decode()
    return await asyncio.to_thread(decode)
