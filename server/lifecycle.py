"""The end of a server: nobody new is let in, those inside finish, and who cannot in time is told so.

Knows no signal and no socket; `draining` is never taken back.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

TELLING_SECONDS = 2.0  # for those whose time is up to be told so


class TimeIsUpError(Exception):
    """The server ends before this work could."""


class Lifecycle:
    """Who is inside, and whether others are let in."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.inside: set[asyncio.Task[Any]] = set()
        self.times: set[asyncio.Timeout] = set()

    @contextmanager
    def presence(self) -> Iterator[None]:
        """A draining server waits for the current task."""
        task = asyncio.current_task()
        assert task is not None
        self.inside.add(task)
        try:
            yield
        finally:
            self.inside.discard(task)

    @asynccontextmanager
    async def work(self) -> AsyncIterator[None]:
        """Presence that ends with TimeIsUpError where a draining server cannot wait any longer."""
        with self.presence():
            time = asyncio.timeout(None)
            try:
                async with time:
                    self.times.add(time)
                    yield
            except TimeoutError as error:
                if time.expired():
                    raise TimeIsUpError from error
                raise
            finally:
                self.times.discard(time)

    async def drain(self, seconds: float) -> bool:
        """Lets nobody in and returns when all have left; False where for some the time was up."""
        self.draining.set()
        if await self._left(seconds):
            return True
        for time in self.times:
            time.reschedule(0)
        await self._left(TELLING_SECONDS)
        return False

    async def _left(self, seconds: float) -> bool:
        """Whether nobody is inside any more, after at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.inside:
                    await asyncio.wait(self.inside)
        return not self.inside
