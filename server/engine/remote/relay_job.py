"""A request of another process, where its engine is. It keeps no images:
every event is passed on at once.
"""

from collections.abc import Callable
from dataclasses import replace

from scanline.model.sampling.base.messages import Event, Request
from scanline.server.engine.job import Job


class RelayJob(Job):
    """Known here by an id of its own; its events leave with the id that the sender gave it."""

    def __init__(
        self,
        request: Request,
        number: int,
        send: Callable[[Event], None],  # gets each event after the job has taken it in
    ) -> None:
        super().__init__(replace(request, id=number))
        self.sender_id = request.id
        self.send = send

    def receive(self, event: Event) -> None:
        """Take in an event of the engine and pass it on."""
        super().receive(event)
        self.send(replace(event, request=self.sender_id))  # type: ignore[arg-type]  # no Ready, no Stats
