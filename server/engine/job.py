"""A request as the API sees it: what has come back from the engine so far, and what of it has been told.

Its buffer is its images, however slowly it is read: what has been painted and not yet taken is merged.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np

from server.engine.messages import Event, Failed, Finished, Glimpse, Paint, Pixels, Score, Scored, Seated


class EngineFailedError(Exception):
    """An accepted request failed; the message is one sentence."""


@dataclass(frozen=True)
class News:
    """What happened to a request since it was last asked: bytes painted, and images that ended."""

    frames: list[tuple[int, int, bytes]]  # image index, first byte position, bytes
    ended: list[tuple[int, float]]  # image index, bits/dim
    glimpse: Glimpse | None = None  # the newest state


class Job:
    """A request in work, on images of `length` bytes. Its buffer never exceeds the images that it asked for.

    A new engine paints an image from its first byte: what is here already comes again, the same, and is not told again.
    """

    def __init__(self, command: Paint | Score, length: int) -> None:
        self.command, self.request = command, command.request
        images = len(command.indices)
        self.images = np.zeros((images, length), np.uint8)
        self.done = np.zeros(images, bool)
        self.left = images  # that are not done
        self.painted = np.zeros(images, np.int64)  # bytes that are here
        self.taken = np.zeros(images, np.int64)  # bytes that `news` has told
        self.bits_per_dim = np.full(images, np.nan)
        self.bits: dict[int, np.ndarray] = {}  # of every byte, by image, for a Score
        self.ended: list[tuple[int, float]] = []
        self.glimpse: Glimpse | None = None  # the newest that is not told
        self.glimpsed = 0  # where image 0 stood in the newest
        self.queue_seconds: float | None = None  # until its first image had a slot
        self.coalesced = 0  # pieces that came while one of the same image was not yet told
        self.failure: str | None = None
        self.changed = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether the engine has no more to do for it."""
        return self.failure is not None or not self.left

    @property
    def rest(self) -> Paint | Score:
        """What an engine must be asked for, so that all gets done."""
        if not self.done.any():
            return self.command
        return replace(self.command, only=tuple(np.flatnonzero(~self.done).tolist()))

    def receive(self, event: Event) -> None:
        """Takes in what the engine says."""
        match event:
            case Seated():
                if self.queue_seconds is None:
                    self.queue_seconds = event.queue_seconds
            case Pixels():
                for index, first, data in event.painted:
                    self.coalesced += int(first + len(data) > self.painted[index] > self.taken[index])
                    self._write(index, first, data)
            case Glimpse():
                if event.position > self.glimpsed:
                    self.glimpse, self.glimpsed = event, event.position
            case Finished():
                self._write(event.index, 0, event.image)
                self.bits_per_dim[event.index] = event.bits_per_dim
                self.ended.append((event.index, event.bits_per_dim))
                self._end(event.index)
            case Scored():
                self.bits[event.index] = np.frombuffer(event.bits)
                self._end(event.index)
            case Failed():
                self.failure = event.message
        self.changed.set()

    async def wait(self) -> None:
        """Returns when all is done; EngineFailedError where it failed."""
        while not self.over:
            self.changed.clear()
            await self.changed.wait()
        self._check()

    async def news(self) -> AsyncIterator[News]:
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
                yield News(frames, ended, glimpse)
            elif self.over:
                return
            else:
                await self.changed.wait()

    def _end(self, index: int) -> None:
        self.done[index] = True
        self.left -= 1

    def _check(self) -> None:
        if self.failure is not None:
            raise EngineFailedError(self.failure)

    def _write(self, index: int, first: int, data: bytes) -> None:
        self.images[index, first : first + len(data)] = np.frombuffer(data, np.uint8)
        self.painted[index] = max(self.painted[index], first + len(data))
