"""Draining: the server accepts no new work, requests in progress
finish, and a timeout interrupts the rest.

Knows no signal and no socket. `draining` is set once and never cleared.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

# of a drain, for bodies that are arriving; what is behind them is not accepted work yet
ARRIVAL_SECONDS = 5.0
# after the drain's timeout, for interrupted requests to send their error
ERROR_RESPONSE_SECONDS = 2.0


class DrainTimeoutError(Exception):
    """The drain timed out before this work was done."""


class Lifecycle:
    """The tasks that a drain waits for."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.unfinished: set[asyncio.Task[Any]] = set()
        self.timeouts: set[asyncio.Timeout] = set()  # of the interruptible ones
        self.arriving: set[asyncio.Timeout] = set()  # of requests whose bodies have not arrived

    @contextmanager
    def tracked(self) -> Iterator[None]:
        """Let a drain wait for the current task until the context ends."""
        task = asyncio.current_task()
        assert task is not None
        self.unfinished.add(task)
        try:
            yield
        finally:
            self.unfinished.discard(task)

    @asynccontextmanager
    async def interruptible(self, is_arriving: bool = False) -> AsyncIterator[Callable[[], None]]:
        """As `tracked`; if the drain times out, DrainTimeoutError is raised in the
        context. `is_arriving`: the drain waits ARRIVAL_SECONDS at most, until the
        function is called that this yields."""
        with self.tracked():
            timeout = asyncio.timeout(None)
            try:
                async with timeout:
                    self.timeouts.add(timeout)
                    if is_arriving:
                        self.arriving.add(timeout)
                    yield lambda: self._accept(timeout)
            except TimeoutError as error:
                if timeout.expired():  # otherwise it is a TimeoutError of the work's own
                    raise DrainTimeoutError from error
                raise
            finally:
                self.timeouts.discard(timeout)
                self.arriving.discard(timeout)

    def _accept(self, timeout: asyncio.Timeout) -> None:
        if timeout in self.arriving:
            self.arriving.remove(timeout)
            if self.draining.is_set() and not timeout.expired():
                timeout.reschedule(None)

    async def drain(self, seconds: float) -> int:
        """Wait until all tasks have ended; return the number of those
        that took longer than `seconds`.
        """
        self.draining.set()
        until = asyncio.get_running_loop().time() + min(seconds, ARRIVAL_SECONDS)
        for timeout in self.arriving:
            timeout.reschedule(until)
        await self._wait(seconds)
        self.arriving.clear()
        late = len(self.unfinished)
        if late:
            for timeout in self.timeouts:
                timeout.reschedule(0)
            await self._wait(ERROR_RESPONSE_SECONDS)
        return late

    async def _wait(self, seconds: float) -> None:
        """Return when no task is unfinished, at the latest after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.unfinished:  # includes tasks that are tracked meanwhile
                    await asyncio.wait(self.unfinished)
