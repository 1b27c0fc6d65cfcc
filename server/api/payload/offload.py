"""A thread for work that would hold the event loop, a few milliseconds at a time.

While a thread computes, each turn of the event loop waits for the interpreter's lock, up to `sys.getswitchinterval()`
for each such thread. So there is one, however many requests there are, and they take turns in it. A single call of a C
library may hold the lock for longer: what such a call is given must be bounded by its caller.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

Result = TypeVar("Result")

INLINE_BYTES = 16_384  # take a few milliseconds: less than handing them to the thread is worth
CHUNK_SECONDS = 0.005  # of one request's work, until it is another request's turn

_worker = ThreadPoolExecutor(1, "scanline-payload")


async def run(work: Callable[[], Result]) -> Result:
    """Return the result of `work`, done in the thread at once: for a single call that is short or releases the lock."""
    return await asyncio.get_running_loop().run_in_executor(_worker, work)


async def in_chunks(steps: Iterable[Result], size: int) -> AsyncIterator[list[Result]]:
    """Yield the results of `steps`, a few milliseconds of work at a time.

    Each step must be short. `size`, in bytes, decides where the work begins: on the event loop if it is at most
    INLINE_BYTES, and goes on in the thread if it takes longer than a chunk may.
    """
    remaining = iter(steps)
    chunk, is_done = _advance(remaining) if size <= INLINE_BYTES else await run(lambda: _advance(remaining))
    yield chunk
    while not is_done:
        chunk, is_done = await run(lambda: _advance(remaining))
        yield chunk


async def collect(steps: Iterable[Result], size: int) -> list[Result]:
    """Return all results of `in_chunks`."""
    return [result async for chunk in in_chunks(steps, size) for result in chunk]


def _advance(steps: Iterator[Result]) -> tuple[list[Result], bool]:
    """Return the results of the next steps, and whether these were the last."""
    results, end = [], monotonic() + CHUNK_SECONDS
    for result in steps:
        results.append(result)
        if monotonic() >= end:
            return results, False
    return results, True
