"""A request as the API sees it: what has come back from the engine so far, and what of it has been told.

Its buffer is its images, however slowly it is read: what has been painted and not yet taken is merged.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from server.engine.messages import Event, Failed, Finished, Glimpse, Pixels, Scored, Seated


class EngineFailedError(Exception):
    """An accepted request failed; the message is one sentence."""


@dataclass(frozen=True)
class News:
    """What happened to a request since it was last asked: bytes painted, and images that ended."""

    frames: list[tuple[int, int, bytes]]  # image index, first byte position, bytes
    ended: list[tuple[int, float]]  # image index, bits/dim
    glimpse: Glimpse | None = None  # the newest state


class Job:
    """A request in work. Its buffer never exceeds the images that it asked for."""

    def __init__(self, request: int, images: int, length: int) -> None:
        self.request = request
        self.images = np.zeros((images, length), np.uint8)
        self.painted = np.zeros(images, np.int64)  # bytes that are here
        self.taken = np.zeros(images, np.int64)  # bytes that `news` has told
        self.bits_per_dim = np.full(images, np.nan)
        self.bits: dict[int, np.ndarray] = {}  # of every byte, by image, for a Score
        self.ended: list[tuple[int, float]] = []
        self.glimpse: Glimpse | None = None  # the newest that is not told
        self.left = images
        self.queue_seconds: float | None = None  # until its first image had a slot
        self.coalesced = 0  # pieces that came while one of the same image was not yet told
        self.failure: str | None = None
        self.changed = asyncio.Event()

    def receive(self, event: Event) -> None:
        """Takes in what the engine says."""
        match event:
            case Seated():
                self.queue_seconds = event.queue_seconds
            case Pixels():
                for index, first, data in event.painted:
                    self.coalesced += int(self.painted[index] > self.taken[index])
                    self._write(index, first, data)
            case Glimpse():
                self.glimpse = event
            case Finished():
                self._write(event.index, 0, event.image)
                self.bits_per_dim[event.index] = event.bits_per_dim
                self.ended.append((event.index, event.bits_per_dim))
                self.left -= 1
            case Scored():
                self.bits[event.index] = np.frombuffer(event.bits)
                self.left -= 1
            case Failed():
                self.failure = event.message
        self.changed.set()

    async def wait(self) -> None:
        """Returns when all is done; EngineFailedError where it failed."""
        while self.left and self.failure is None:
            self.changed.clear()
            await self.changed.wait()
        if self.failure is not None:
            raise EngineFailedError(self.failure)

    async def news(self) -> AsyncIterator[News]:
        """What has been painted since, merged, until all is told; EngineFailedError where it failed."""
        while True:
            self.changed.clear()
            if self.failure is not None:
                raise EngineFailedError(self.failure)
            fresh = np.flatnonzero(self.painted > self.taken)
            frames = [
                (int(i), int(self.taken[i]), self.images[i, self.taken[i] : self.painted[i]].tobytes()) for i in fresh
            ]
            self.taken[fresh] = self.painted[fresh]
            ended, self.ended = self.ended, []
            glimpse, self.glimpse = self.glimpse, None
            if frames or ended or glimpse:
                yield News(frames, ended, glimpse)
            elif not self.left:
                return
            else:
                await self.changed.wait()

    def _write(self, index: int, first: int, data: bytes) -> None:
        self.images[index, first : first + len(data)] = np.frombuffer(data, np.uint8)
        self.painted[index] = max(self.painted[index], first + len(data))
