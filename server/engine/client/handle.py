"""The API's side of whatever paints: the jobs in work, how many images may wait, and how all of it ended.

How a job's commands reach an engine, and its events come back, is each heir's own: `EngineClient` has one engine in a
process beside it, a cluster's `ReplicaPool` many on other machines.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from scanline.model.sampling.messages import GenerateRequest, Ready, ScoreRequest, Stats
from scanline.server.engine.client.counters import RequestCounters
from scanline.server.engine.client.job import Job, PendingJob
from scanline.server.engine.worker.process import EngineOptions

AnyJob = TypeVar("AnyJob", bound=PendingJob)


class EngineUnavailableError(Exception):
    """The engine is loading for the first time, or gone for good; nothing was accepted."""


class QueueFullError(Exception):
    """More images wait than the server is set to let wait."""


class EngineHandle(ABC):
    """One model's jobs. Each is in `jobs` from its beginning until its context is left."""

    def __init__(self, options: EngineOptions, max_waiting_images: int, length: int) -> None:
        self.options = options
        self.length = length
        self.max_waiting_images = max_waiting_images
        self.reserved = 0  # images accepted and not yet answered
        self.watched = 0  # jobs that are told states
        self.ready: Ready | None = None  # what the engine said when it was last loaded
        self.load_error: str | None = None
        self.counters = RequestCounters()
        self.jobs: dict[int, PendingJob] = {}
        self.numbers = itertools.count()
        self.gone = asyncio.Event()  # for good: nothing will be painted any more

    @abstractmethod
    def start(self) -> None:
        """Begins to get ready, on the running event loop; `ready` tells when the model is loaded."""

    @abstractmethod
    async def settled(self) -> None:
        """Returns when requests may come, ready or not."""

    @abstractmethod
    async def close(self) -> None:
        """Ends what `start` began."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it can paint now: not while the model loads, for the first time or after a death."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Images in flight at once; 0 while the model loads for the first time."""

    @property
    @abstractmethod
    def heartbeat_age(self) -> float:
        """Seconds since the engine was last heard of."""

    @property
    @abstractmethod
    def restarts(self) -> int:
        """Engines started after the first one."""

    @property
    @abstractmethod
    def load_seconds(self) -> float:
        """Seconds from an engine's start until it was ready."""

    @property
    @abstractmethod
    def stats(self) -> Stats:
        """What the engine last told of itself, with what waits for it here."""

    @abstractmethod
    def _begin(self, job: PendingJob) -> None:
        """Sees to it that the job is done; it is in `jobs`."""

    @abstractmethod
    def _leave(self, job: PendingJob) -> None:
        """Nobody waits for this job any more, over or not; it is no longer in `jobs`."""

    @property
    def coalesced(self) -> int:
        """Pieces of streamed images that were merged into one not yet told, since the server started."""
        return self.counters.coalesced + sum(job.coalesced for job in self.jobs.values())

    @contextmanager
    def reserve(self, images: int) -> Iterator[None]:
        """Room for a request's images, taken before its upload is decoded and given back when it is answered.

        EngineUnavailableError or QueueFullError where there is none.
        """
        if self.ready is None or self.gone.is_set():
            self.counters.refused["not_ready"] += 1
            raise EngineUnavailableError
        if self.reserved + images > self.slots + self.max_waiting_images:
            self.counters.refused["queue_full"] += 1
            raise QueueFullError
        self.reserved += images
        try:
            yield
        finally:
            self.reserved -= images

    @contextmanager
    def paint(
        self,
        images: int,
        seed: int,
        temperature: float,
        known: tuple[bytes, ...] = (),
        masks: tuple[bytes, ...] = (),
        stream: bool = False,
        trace: tuple[int, int] | None = None,
    ) -> Iterator[Job]:
        """A painting job; leaving the context before it is done cancels it."""
        command = GenerateRequest(next(self.numbers), images, seed, temperature, known, masks, stream, trace)
        self.watched += trace is not None
        try:
            with self.take(Job(command, self.length)) as job:
                yield job
        finally:
            self.watched -= trace is not None

    @contextmanager
    def score(self, images: tuple[bytes, ...]) -> Iterator[Job]:
        """A scoring job; leaving the context before it is done cancels it."""
        with self.take(Job(ScoreRequest(next(self.numbers), images), self.length)) as job:
            yield job

    @contextmanager
    def take(self, job: AnyJob) -> Iterator[AnyJob]:
        """Has a job done whose number is one of `numbers`; leaving the context before it is done cancels it."""
        operation, began = "paint" if isinstance(job.command, GenerateRequest) else "score", monotonic()
        self.jobs[job.request] = job
        self._begin(job)
        try:
            yield job
        finally:
            del self.jobs[job.request]
            self.counters.end(operation, job, began)
            self._leave(job)
