"""Threads for work that would hold the event loop, in which clients take turns.

While a thread computes, each turn of the event loop waits for the interpreter's lock, up to
`sys.getswitchinterval()` for each such thread. So there is one, however many requests there are,
and they take turns in it, a few milliseconds at a time. A single call of a C library may hold the
lock for longer: what such a call is given must be bounded by its caller. Calls that take long and
release the lock have a thread of their own.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from scanline.server.api.base.client import CURRENT

Result = TypeVar("Result")

INLINE_BYTES = 16_384  # take a few milliseconds: less than handing them to the thread is worth
CHUNK_SECONDS = 0.005  # of one request's work, until it is another request's turn

MAX_CLIENTS = 1024  # whose time is remembered


class FairThread:
    """A thread, of any event loops, that next works for the waiting client
    that has had the least of its time.
    """

    def __init__(self, name: str) -> None:
        self.executor = ThreadPoolExecutor(1, name)
        self.lock = threading.Lock()
        self.waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}  # by client
        # of each client, who begins with as many as the one before it had
        self.seconds: dict[str, float] = {}
        self.least = 0.0

    def submit(self, client: str, work: Callable[[], Result]) -> Future[Result]:
        """Return a future of the result of `work`, which is not
        begun if that is cancelled before.
        """
        future: Future[Result] = Future()
        with self.lock:
            self.seconds[client] = max(self.least, self.seconds.get(client, 0.0))
            self.waiting.setdefault(client, deque()).append((future, work))
        self.executor.submit(self._run_next)
        return future

    def _run_next(self) -> None:
        with self.lock:
            client = min(self.waiting, key=self.seconds.__getitem__)
            self.least = self.seconds[client]
            future, work = self.waiting[client].popleft()
            if not self.waiting[client]:
                del self.waiting[client]
        if not future.set_running_or_notify_cancel():
            return
        began = monotonic()
        try:
            answer = partial(future.set_result, work())
        except BaseException as error:
            answer = partial(future.set_exception, error)
        with self.lock:  # before the answer, on which the client's next work may follow
            self.seconds[client] += monotonic() - began
            if len(self.seconds) > MAX_CLIENTS:
                self.seconds = {name: self.seconds[name] for name in self.waiting}
        answer()


_worker = FairThread("scanline-payload")
_long = FairThread("scanline-long")


async def run(work: Callable[[], Result]) -> Result:
    """Return the result of `work`, done in the thread at once: for a single call that is short."""
    return await asyncio.wrap_future(_worker.submit(CURRENT.get(), work))


async def run_long(work: Callable[[], Result]) -> Result:
    """Return the result of `work`, one call that takes long and releases the interpreter's lock."""
    return await asyncio.wrap_future(_long.submit(CURRENT.get(), work))


async def in_chunks(steps: Iterable[Result], size: int | None) -> AsyncIterator[list[Result]]:
    """Yield the results of `steps`, a few milliseconds of work at a time.

    Each step must be short. `size`, in bytes, decides where the work begins: on the event loop if
    it is at most INLINE_BYTES, and goes on in the thread if it takes longer than a chunk may.
    None: steps are as those of `run_long`.
    """
    remaining = iter(steps)
    is_inline = size is not None and size <= INLINE_BYTES
    offloaded = run_long if size is None else run
    is_done = False
    while not is_done:
        chunk, is_done = (
            _advance(remaining) if is_inline else await offloaded(lambda: _advance(remaining))
        )
        is_inline = False
        yield chunk


async def collect(steps: Iterable[Result], size: int | None) -> list[Result]:
    """Return all results of `in_chunks`."""
    return [result async for chunk in in_chunks(steps, size) for result in chunk]


def _advance(steps: Iterator[Result]) -> tuple[list[Result], bool]:
    """Return the results of the next steps, and whether these were the last."""
    end = monotonic() + CHUNK_SECONDS
    results = []
    for result in steps:
        results.append(result)
        if monotonic() >= end:
            return results, False
    return results, True
