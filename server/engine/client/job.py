"""A request as the API sees it: what has come back from the engine so far, and what of it has been told.

Its buffer is its images, however slowly it is read: what has been painted and not yet taken is merged.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np

from scanline.model.sampling.messages import (
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Pixels,
    Scheduled,
    Scored,
    ScoreRequest,
    StateSnapshot,
)


class EngineFailedError(Exception):
    """An accepted request failed; the message is one sentence."""


@dataclass(frozen=True)
class Update:
    """What happened to a request since it was last asked: bytes painted, and images that ended."""

    frames: list[tuple[int, int, bytes]]  # image index, first byte position, bytes
    ended: list[tuple[int, float]]  # image index, bits/dim
    glimpse: StateSnapshot | None = None  # the newest state


class PendingJob:
    """A request and what of it is still to be done, whoever wants its bytes."""

    coalesced = 0  # pieces that came while one of the same image was not yet told

    def __init__(self, command: GenerateRequest | ScoreRequest) -> None:
        self.command, self.request = command, command.id
        self.total = len(command.indices)
        self.missing = set(command.indices)
        self.failure: str | None = None
        self.changed = asyncio.Event()

    @property
    def left(self) -> int:
        """Images that are not done."""
        return len(self.missing)

    @property
    def over(self) -> bool:
        """Whether the engine has no more to do for it."""
        return self.failure is not None or not self.missing

    @property
    def rest(self) -> GenerateRequest | ScoreRequest:
        """What an engine must be asked for, so that all gets done."""
        if self.left == self.total:
            return self.command
        return replace(self.command, only=tuple(sorted(self.missing)))

    def receive(self, event: Event) -> None:
        """Takes in what the engine says."""
        match event:
            case Finished() | Scored():
                self.missing.discard(event.index)
            case Failed():
                self.failure = event.message
        self.changed.set()


class Job(PendingJob):
    """A request in work, on images of `length` bytes. Its buffer never exceeds the images that it asked for.

    A new engine paints an image from its first byte: what is here already comes again, the same, and is not told again.
    """

    def __init__(self, command: GenerateRequest | ScoreRequest, length: int) -> None:
        super().__init__(command)
        self.images = np.zeros((self.total, length), np.uint8)
        self.painted = np.zeros(self.total, np.int64)  # bytes that are here
        self.taken = np.zeros(self.total, np.int64)  # bytes that `news` has told
        self.bits_per_dim = np.full(self.total, np.nan)
        self.bits: dict[int, np.ndarray] = {}  # of every byte, by image, for a ScoreRequest
        self.ended: list[tuple[int, float]] = []
        self.glimpse: StateSnapshot | None = None  # the newest that is not told
        self.glimpsed = 0  # where image 0 stood in the newest
        self.queue_seconds: float | None = None  # until its first image had a slot

    def receive(self, event: Event) -> None:
        """Takes in what the engine says; an image that is done stays as it is."""
        match event:
            case Scheduled():
                if self.queue_seconds is None:
                    self.queue_seconds = event.queue_seconds
            case Pixels():
                for index, first, data in event.painted:
                    self.coalesced += int(first + len(data) > self.painted[index] > self.taken[index])
                    self._write(index, first, data)
            case StateSnapshot():
                if event.position > self.glimpsed:
                    self.glimpse, self.glimpsed = event, event.position
            case Finished() if event.index in self.missing:
                self._write(event.index, 0, event.image)
                self.bits_per_dim[event.index] = event.bits_per_dim
                self.ended.append((event.index, event.bits_per_dim))
            case Scored():
                self.bits[event.index] = np.frombuffer(event.bits)
        super().receive(event)

    async def wait(self) -> None:
        """Returns when all is done; EngineFailedError where it failed."""
        while not self.over:
            self.changed.clear()
            await self.changed.wait()
        self._check()

    async def news(self) -> AsyncIterator[Update]:
        """What has been painted since, merged, until all is told; EngineFailedError where it failed."""
        while True:
            self.changed.clear()
            self._check()
            fresh = np.flatnonzero(self.painted > self.taken)
            frames = [
                (int(i), int(self.taken[i]), self.images[i, self.taken[i] : self.painted[i]].tobytes()) for i in fresh
            ]
            self.taken[fresh] = self.painted[fresh]
            ended, self.ended = self.ended, []
            glimpse, self.glimpse = self.glimpse, None
            if frames or ended or glimpse:
                yield Update(frames, ended, glimpse)
            elif self.over:
                return
            else:
                await self.changed.wait()

    def _check(self) -> None:
        if self.failure is not None:
            raise EngineFailedError(self.failure)

    def _write(self, index: int, first: int, data: bytes) -> None:
        self.images[index, first : first + len(data)] = np.frombuffer(data, np.uint8)
        self.painted[index] = max(self.painted[index], first + len(data))
