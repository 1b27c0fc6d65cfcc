"""Pictures are decoded and encoded beside the event loop where they are many bytes: nobody else waits for them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")

AT_ONCE = 16_384  # bytes that are worked on in a few milliseconds


async def beside(size: int, work: Callable[[], Result]) -> Result:
    """What `work` makes of so many bytes, in a thread where these are many."""
    return work() if size <= AT_ONCE else await asyncio.to_thread(work)


async def decoded(pictures: Sequence[bytes], decode: Callable[[], Result]) -> Result:
    """What `decode` makes of the pictures."""
    return await beside(sum(len(picture) for picture in pictures), decode)
