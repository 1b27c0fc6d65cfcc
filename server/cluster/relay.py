"""A request that is done here for a desk elsewhere, which keeps its images: events are passed on as they come."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from scanline.model.sampling.messages import Event, GenerateRequest, ScoreRequest
from scanline.server.engine.client.job import PendingJob


class RelayJob(PendingJob):
    """What came and was not passed on is all that it keeps."""

    def __init__(self, command: GenerateRequest | ScoreRequest) -> None:
        super().__init__(command)
        self.fresh: list[Event] = []
        self.ended = asyncio.Event()

    def receive(self, event: Event) -> None:
        """Takes in what the engine says."""
        self.fresh.append(event)
        super().receive(event)
        if self.has_ended:
            self.ended.set()

    async def events(self, pause: Callable[[], float] = lambda: 0.0) -> AsyncIterator[list[Event]]:
        """All events in their order, in lists, until it is over; so many seconds lie between two, but for the last."""
        while self.fresh or not self.has_ended:
            self.changed.clear()
            if self.fresh:
                fresh, self.fresh = self.fresh, []
                yield fresh
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.ended.wait(), pause())
            else:
                await self.changed.wait()
