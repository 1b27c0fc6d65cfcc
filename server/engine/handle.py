"""The API's side of one model's engines: the requests in progress, the room
in the queue, and how requests ended.

Subclasses decide how commands reach an engine and how its events come back: `EngineClient` has one
engine in a child process, a `RemoteEngine` those of other processes.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TypeVar

from scanline.model.sampling.base.messages import GenerateRequest, Ready, Stats
from scanline.server.engine.counters import RequestCounters
from scanline.server.engine.job import Job
from scanline.server.engine.queue_limits import (
    UNLIMITED,
    AdmissionControl,
    QueueFullError,
    QueueLimits,
    Reservation,
)
from scanline.server.engine.worker.process import EngineOptions

AnyJob = TypeVar("AnyJob", bound=Job)


class EngineUnavailableError(Exception):
    """The engine is loading for the first time, or has failed for good; nothing was accepted."""


class EngineHandle(ABC):
    """One model's jobs. Each is in `jobs` from its start until its context is left."""

    def __init__(self, options: EngineOptions, limits: QueueLimits = UNLIMITED) -> None:
        self.options = options
        self.admission = AdmissionControl(limits)
        self.users = 0  # requests that have room here and are not done
        self.unused = asyncio.Event()  # set while there are none
        self.unused.set()
        self.ready: Ready | None = None  # what the engine reported when it was last loaded
        self.load_error: str | None = None
        self.failure_reason = "its engine died"  # why it failed, where it was loaded before
        self.counters = RequestCounters()
        self.jobs: dict[int, Job] = {}
        self.request_ids = itertools.count()
        self.failed = asyncio.Event()  # for good

    @abstractmethod
    def start(self) -> None:
        """Start to get ready, on the running event loop; `ready`
        is set once the model is loaded.
        """

    async def settled(self) -> None:
        """Return when requests may be let in, ready or not: at once, since they
        are refused while the model loads.
        """
        return

    def take_over(self, old: "EngineHandle") -> None:
        """Continue the counts of the handle that this one replaces, and share one queue with it."""
        self.admission = old.admission
        self.counters = old.counters

    @abstractmethod
    async def close(self) -> None:
        """End what `start` began."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it can paint now: not while the model loads, for
        the first time or after a crash.
        """

    @property
    def slots(self) -> int:
        """Images in flight at once; 0 while the model loads for the first time."""
        return self.ready.slots if self.ready else 0

    @property
    def admitted_slots(self) -> int:
        """Slots that the requests of this side may count on."""
        return self.slots

    @property
    def max_slots_per_image(self) -> int:
        """Slots that an image may take at most: they are of one engine together, or not at all."""
        return self.slots

    @property
    @abstractmethod
    def heartbeat_age(self) -> float:
        """Seconds since the engine's last message."""

    @property
    def restarts(self) -> int:
        """Engines started after the first one, those of earlier versions of the model included."""
        return self.counters.restarts

    @property
    @abstractmethod
    def load_seconds(self) -> float:
        """Seconds from an engine's start until it was ready."""

    @property
    @abstractmethod
    def stats(self) -> Stats:
        """The engine's last report, with what is still waiting on this side."""

    @abstractmethod
    def _begin(self, job: Job) -> None:
        """Send the job, which is in `jobs`, to an engine, now or later."""

    @abstractmethod
    def _leave(self, job: Job) -> None:
        """Cancel the job where it has not ended; it is no longer in `jobs`."""

    @property
    def coalesced(self) -> int:
        """Frames merged into a later one because their reader was
        behind, since the server started.
        """
        return self.counters.coalesced + sum(job.merged for job in self.jobs.values())

    @property
    def watching(self) -> Counter[str]:
        """Jobs that receive state snapshots, by client."""
        requests = (job.request for job in self.jobs.values() if not job.has_ended)
        watched = (
            request
            for request in requests
            if isinstance(request, GenerateRequest) and request.snapshot is not None
        )
        return Counter(request.client for request in watched)

    @property
    def directory(self) -> Path:
        """Directory of the files of the served model."""
        return self.options.directory

    @property
    def reserved_images(self) -> int:
        """Images that were accepted and are not painted yet, each counted
        as many times as it takes slots.
        """
        return self.admission.total.images

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Keep this engine until the context is left, or the function is called that
        this yields: a reload stops it no earlier. EngineUnavailableError where it is
        not loaded, or has failed for good."""
        if self.ready is None or self.failed.is_set():
            self.counters.refused["not_ready"] += 1
            raise EngineUnavailableError
        self.users += 1
        self.unused.clear()
        is_held = True

        def end() -> None:
            nonlocal is_held
            self.users -= is_held
            is_held = False
            if not self.users:
                self.unused.set()

        try:
            yield end
        finally:
            end()

    @contextmanager
    def reserve(self, images: int, client: str = "", counted: str = "") -> Iterator[Reservation]:
        """Reserve room for a request's images, before its upload is decoded; `run` gives it back
        image by image. counted: as of `Reservation.extend`.

        What is left is given back with the context. EngineUnavailableError or QueueFullError where
        there is none; the latter also in the context, where `Reservation.extend` finds none.
        """
        with self.held() as end:
            try:
                reservation = self.admission.reserve(images, client, self.admitted_slots, counted)
                reservation.on_ended = end  # what is painted needs no engine until it is read
                try:
                    yield reservation
                finally:
                    reservation.release()
            except QueueFullError as error:
                self.counters.refused[error.code] += 1
                raise

    @contextmanager
    def run(self, job: AnyJob, reservation: Reservation | None = None) -> Iterator[AnyJob]:
        """Have a job done whose id is one of `request_ids`; leaving the
        context before it has ended cancels it.

        No other model than the one that is served now works on it, whatever becomes of this engine.
        """
        if not job.request.digest and self.ready is not None:
            job.request = replace(
                job.request, digest=self.ready.digest + self.ready.head_for(job.request)
            )
        job.reservation = reservation
        operation = "paint" if isinstance(job.request, GenerateRequest) else "score"
        began = monotonic()
        self.jobs[job.id] = job
        self._begin(job)
        try:
            yield job
        finally:
            del self.jobs[job.id]
            self.counters.end(operation, job, began)
            self._leave(job)
