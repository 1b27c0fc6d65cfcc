"""Decoding and encoding of pictures, in a thread if they are large, so that the event loop is not blocked."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")

INLINE_BYTES = 16_384  # take a few milliseconds: less than handing them to a thread is worth


async def run_in_thread_if_large(size: int, work: Callable[[], Result]) -> Result:
    """Return the result of `work` on `size` bytes, run in a thread if these are more than INLINE_BYTES."""
    return work() if size <= INLINE_BYTES else await asyncio.to_thread(work)


async def decoded(pictures: Sequence[bytes], decode: Callable[[], Result]) -> Result:
    """Return what `decode` makes of the pictures."""
    return await run_in_thread_if_large(sum(len(picture) for picture in pictures), decode)
