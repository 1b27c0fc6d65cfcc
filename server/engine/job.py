"""A task in an engine: which of its images are not done, its room
in the queue, and whether it failed.

What has come back of the images is the task's. A job of another process's request
has none: its events are passed on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from scanline.model.sampling.base.messages import (
    Event,
    Failed,
    Finished,
    Request,
    Scheduled,
    Scored,
)
from scanline.model.tasks.task import Task
from scanline.server.engine.queue_limits import Reservation

log = logging.getLogger("scanline.engine")

NOT_TAKEN_IN = "The server failed while it took in the results of this request; its log says why."


class EngineFailedError(Exception):
    """An accepted request failed; the message is one sentence."""

    def __init__(self, message: str, code: str = "engine_failed", param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class Job:
    """A request, and which of its images are not done."""

    def __init__(self, request: Request, task: Task | None = None) -> None:
        self.request = request
        self.id = request.id
        self.task = task
        self.total = len(request.indices)
        self.missing = set(request.indices)
        self.slots_left = request.slots_of(self.missing)
        self.queue_seconds: float | None = None  # until its first image had a slot; a read has none
        self.failure: Failed | None = None
        self.reservation: Reservation | None = None  # the room that it gives back image by image
        self.changed = asyncio.Event()  # by any event of the engine
        self.ended = asyncio.Event()

    @property
    def images_left(self) -> int:
        """Images that are not done."""
        return len(self.missing)

    @property
    def has_ended(self) -> bool:
        """Whether the engine has nothing more to do for it."""
        return self.failure is not None or not self.missing

    @property
    def held_bytes(self) -> int:
        """Bytes of what has come back, which are kept until the request is answered."""
        return 0 if self.task is None else self.task.held_bytes

    @property
    def merged(self) -> int:
        """Frames that were merged because the one before them had not been taken."""
        return 0 if self.task is None else self.task.merged

    @property
    def remainder(self) -> Request:
        """The request that an engine must be sent so that all images get done."""
        if self.images_left == self.total:
            return self.request
        return replace(self.request, only=tuple(sorted(self.missing)))

    def receive(self, event: Event) -> None:
        """Take in an event of the engine; an image that is done stays as it is."""
        match event:
            case Finished() | Scored():
                if event.index in self.missing:
                    self.missing.remove(event.index)
                    self.slots_left -= self.request.slots_of((event.index,))
                    self._pass_on(event)
                if self.reservation is not None:
                    self.reservation.update(self.slots_left, self.held_bytes)
            case Failed():
                self.failure = event
                if self.reservation is not None:
                    self.reservation.give_up()
            case Scheduled():
                if self.queue_seconds is None:
                    self.queue_seconds = event.queue_seconds
            case _:
                self._pass_on(event)
        self.changed.set()
        if self.has_ended:
            self.ended.set()
            if self.reservation is not None and self.reservation.on_ended is not None:
                self.reservation.on_ended()

    def deliver(self, event: Event) -> bool:
        """Take in an event of the engine; where that fails, the request fails alone. Return whether
        the engine is to be told that the request is not needed any more."""
        try:
            self.receive(event)
        except Exception:
            log.exception("an event of a request could not be taken in; the request fails")
            self.receive(Failed(self.id, NOT_TAKEN_IN))
            return True
        return False

    async def wait(self) -> None:
        """Return when all images are done; EngineFailedError where the request failed."""
        await self.ended.wait()
        self._raise_failure()

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever something has come back, and a last time when all images are done;
        EngineFailedError where the request failed."""
        while True:
            self.changed.clear()
            self._raise_failure()
            has_ended = self.has_ended
            yield
            if has_ended:
                return
            await self.changed.wait()

    def _pass_on(self, event: Event) -> None:
        if self.task is not None:
            self.task.receive(event)

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise EngineFailedError(self.failure.message, self.failure.code, self.failure.param)
