"""Memory of the server's processes: freed memory goes back to the system
(glibc), garbage is collected rarely.

glibc keeps what a process frees for its next allocations. Above a threshold it asks the system for
each block and gives it back at once, but raises this threshold to the largest block that was ever
freed: after one body of 16 MB, all blocks up to that size come from a heap that shrinks only from
its end, where something small nearly always is. A peak of bodies, pictures and answers would be
kept. Smaller blocks come from that heap in any case: pages of it that are free as a whole are given
back from time to time, wherever they are.

Requests leave nearly no garbage in cycles (about one object each), but a collection looks at all
objects of all requests in progress. With a thousand of them, Python's own thresholds took half of
the event loop's time, 0.3 s at a time.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress

# of glibc's malloc.h
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
# a block of so many bytes is asked of the system, and given back; a read of a socket is smaller
LARGE_BYTES = 300_000
FREE_BYTES = 1_048_576  # that may stay free at the end of the heap
ARENAS = 2  # heaps: the event loop's, and one for all other threads
TRIM_SECONDS = 30.0  # between two searches for free pages
# new objects that stay; collections of young objects, and of older ones
COLLECT_AFTER = 10_000, 100, 100


def give_back_freed_memory() -> None:
    """Fix malloc's thresholds for this process, without effect on those that it starts."""
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in (
            (M_MMAP_THRESHOLD, LARGE_BYTES),
            (M_TRIM_THRESHOLD, FREE_BYTES),
            (M_ARENA_MAX, ARENAS),
        ):
            mallopt(option, value)


def collect_rarely() -> None:
    """Leave what there is now out of all collections, and have few of
    them; for a process that has started.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def give_back_free_pages(seconds: float = TRIM_SECONDS) -> None:
    """Give the free pages of all heaps back every so many seconds, off the
    event loop, until this is cancelled.
    """
    if (trim := _malloc_trim()) is not None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(trim, FREE_BYTES)


def _malloc_trim() -> Callable[[int], int] | None:
    with suppress(OSError, AttributeError):
        trim = ctypes.CDLL(None).malloc_trim
        trim.argtypes = [ctypes.c_size_t]
        return trim
    return None
