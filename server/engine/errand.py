"""A request that is done here for a desk elsewhere, which keeps its images: events are passed on as they come."""

from collections.abc import AsyncIterator

from server.engine.job import Asked
from server.engine.messages import Event, Paint, Score


class Errand(Asked):
    """What came and was not passed on is all that it keeps."""

    def __init__(self, command: Paint | Score) -> None:
        super().__init__(command)
        self.fresh: list[Event] = []

    def receive(self, event: Event) -> None:
        """Takes in what the engine says."""
        self.fresh.append(event)
        super().receive(event)

    async def events(self) -> AsyncIterator[list[Event]]:
        """All events in their order, in lists, until it is over."""
        while self.fresh or not self.over:
            self.changed.clear()
            if self.fresh:
                fresh, self.fresh = self.fresh, []
                yield fresh
            else:
                await self.changed.wait()
