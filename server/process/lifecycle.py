"""Draining: the server accepts no new work, requests in progress finish, and a timeout interrupts the rest.

Knows no signal and no socket. `draining` is set once and never cleared.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

ERROR_RESPONSE_SECONDS = 2.0  # after the drain's timeout, for interrupted requests to send their error


class DrainTimeoutError(Exception):
    """The drain timed out before this work was done."""


class Lifecycle:
    """The tasks that a drain waits for."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.unfinished: set[asyncio.Task[Any]] = set()
        self.timeouts: set[asyncio.Timeout] = set()  # of the interruptible ones

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
    async def interruptible(self) -> AsyncIterator[None]:
        """As `tracked`; if the drain times out, DrainTimeoutError is raised in the context."""
        with self.tracked():
            timeout = asyncio.timeout(None)
            try:
                async with timeout:
                    self.timeouts.add(timeout)
                    yield
            except TimeoutError as error:
                if timeout.expired():  # otherwise it is a TimeoutError of the work's own
                    raise DrainTimeoutError from error
                raise
            finally:
                self.timeouts.discard(timeout)

    async def drain(self, seconds: float) -> int:
        """Wait until all tasks have ended; return the number of those that took longer than `seconds`."""
        self.draining.set()
        await self._wait(seconds)
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
