"""Engines as processes of their own, with the API's side of them in this one; and engines with a fault built in."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scanline.model.sampling.generator import Generator, Prefix
from scanline.model.sampling.messages import Event, GenerateRequest, ImageSpec, Ready, ScoreRequest
from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.engine.client.job import Job
from scanline.server.engine.worker.process import EngineOptions
from tests.support.patience import PATIENCE

LENGTH = 35  # bytes of an image of the grey model
ENDLESS = 100_000  # images: minutes of work
DEADLY, GREEDY = 666, 667  # seeds of images that are too much for a Faulty engine


class Listener(EngineClient):
    """An engine's client that writes down all that the engine says, of images of 35 bytes."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options, ENDLESS)
        self.heard: list[Event] = []
        self.hears = asyncio.Event()

    def _receive(self, events: list[Event]) -> None:
        super()._receive(events)
        self.heard += events
        self.hears.set()

    async def started(self) -> "Listener":
        self.start()
        await self.hear(Ready)
        return self

    async def hear(self, kind: type[Event], times: int = 1) -> None:
        """Returns when the engine has said something of that kind so many times."""
        async with asyncio.timeout(PATIENCE):
            while sum(isinstance(event, kind) for event in self.heard) < times:
                self.hears.clear()
                await self.hears.wait()

    def paint(
        self,
        images: int,
        seed: int,
        temperature: float = 1.0,
        known: tuple[bytes, ...] = (),
        masks: tuple[bytes, ...] = (),
        stream: bool = False,
    ) -> AbstractContextManager[Job]:
        """A painting job."""
        request = GenerateRequest(next(self.request_ids), images, seed, temperature, known, masks, stream)
        return self.run(Job(request, LENGTH))

    def score(self, images: tuple[bytes, ...]) -> AbstractContextManager[Job]:
        """A scoring job."""
        return self.run(Job(ScoreRequest(next(self.request_ids), images), LENGTH))

    def signal(self, number: signal.Signals) -> None:
        """Sends its process a signal."""
        assert self.process is not None
        assert self.process.process.pid is not None
        os.kill(self.process.process.pid, number)


@asynccontextmanager
async def running(options: EngineOptions) -> AsyncIterator[Listener]:
    """An engine that is ready, for as long as the context lasts."""
    engine = await Listener(options).started()
    try:
        yield engine
    finally:
        await engine.close()


async def within_patience(work: Awaitable[None]) -> None:
    await asyncio.wait_for(work, PATIENCE)


@dataclass(frozen=True)
class Faulty(EngineOptions):
    """An engine with faults for tests: images of some seeds are too much for it, and it can be told to die.

    Where the file `fate` holds a signal's number, it sends itself that signal once, in its third piece of work.
    """

    fate: Path = Path("none")

    def generator(self) -> Generator:
        generator = super().generator()
        place, advance, score = generator.place, generator.advance, generator.score
        work = itertools.count(1)

        def meet_fate() -> None:
            if self.fate.exists() and next(work) == 3:
                number = int(self.fate.read_text())
                self.fate.unlink()
                os.kill(os.getpid(), number)

        def faulty_place(slot: int, canvas: ImageSpec, prefix: Prefix | None = None) -> None:
            if canvas.seed == DEADLY:
                os.kill(os.getpid(), signal.SIGSEGV)
            elif canvas.seed == GREEDY:
                np.empty(1 << 50, np.uint8)
            place(slot, canvas, prefix)

        def faulty_advance(steps: int) -> None:
            meet_fate()
            advance(steps)

        def faulty_score(images: np.ndarray) -> np.ndarray:
            meet_fate()
            return score(images)

        generator.place, generator.advance, generator.score = faulty_place, faulty_advance, faulty_score  # type: ignore[method-assign]
        return generator
