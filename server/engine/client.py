"""The API's side of an engine: starts it, sends it commands, hands its events to the jobs they are for.

One thread reads the pipe and one writes it; all else happens on the event loop. A job that is left before it is
done is cancelled in the engine.
"""

import asyncio
import itertools
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from server.engine.job import Job
from server.engine.messages import (
    Cancel,
    CannotLoad,
    Command,
    Event,
    Failed,
    Paint,
    Ready,
    Score,
    Stats,
    Stop,
)
from server.engine.process import EngineOptions, start
from server.engine.tally import Tally


class EngineUnavailableError(Exception):
    """The engine is loading or gone; nothing was accepted."""


class QueueFullError(Exception):
    """More images wait than the server is set to let wait."""


class EngineClient:
    """One engine, its jobs, and how many images may wait for it."""

    def __init__(self, options: EngineOptions, max_waiting_images: int, length: int) -> None:
        self.options = options
        self.length = length
        self.max_waiting_images = max_waiting_images
        self.reserved = 0  # images accepted and not yet answered
        self.watched = 0  # jobs that are told states
        self.ready: Ready | None = None
        self.load_seconds = 0.0
        self.stats = Stats()
        self.tally = Tally()
        self.jobs: dict[int, Job] = {}
        self.numbers = itertools.count()
        self.load_error: str | None = None
        self.gone = asyncio.Event()
        self.outbox: queue.SimpleQueue[Command] = queue.SimpleQueue()

    def start(self) -> None:
        """Starts the process, on the running event loop; `ready` tells when the model is loaded."""
        self.loop = asyncio.get_running_loop()
        self.started = time.monotonic()
        self.process, self.connection = start(self.options)
        threading.Thread(target=self._read, name="engine-events", daemon=True).start()
        threading.Thread(target=self._write, name="engine-commands", daemon=True).start()

    @property
    def slots(self) -> int:
        """Images in flight at once; 0 while the model loads."""
        return self.ready.slots if self.ready else 0

    @property
    def is_ready(self) -> bool:
        return self.ready is not None and not self.gone.is_set()

    @property
    def coalesced(self) -> int:
        """Pieces of streamed images that were merged into one not yet told, since the server started."""
        return self.tally.coalesced + sum(job.coalesced for job in self.jobs.values())

    @contextmanager
    def reserve(self, images: int) -> Iterator[None]:
        """Room for a request's images, taken before its upload is decoded and given back when it is answered.

        EngineUnavailableError or QueueFullError where there is none.
        """
        if self.ready is None or self.gone.is_set():
            self.tally.refused["not_ready"] += 1
            raise EngineUnavailableError
        if self.reserved + images > self.ready.slots + self.max_waiting_images:
            self.tally.refused["queue_full"] += 1
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
        self.watched += trace is not None
        try:
            with self._job("paint", images) as job:
                self.outbox.put(Paint(job.request, images, seed, temperature, known, masks, stream, trace))
                yield job
        finally:
            self.watched -= trace is not None

    @contextmanager
    def score(self, images: tuple[bytes, ...]) -> Iterator[Job]:
        """A scoring job; leaving the context before it is done cancels it."""
        with self._job("score", len(images)) as job:
            self.outbox.put(Score(job.request, images))
            yield job

    async def close(self) -> None:
        """Ends the engine, by force where it does not leave by itself."""
        self.outbox.put(Stop())
        await asyncio.to_thread(self.process.join, 5)
        if self.process.is_alive():
            self.process.kill()
            await asyncio.to_thread(self.process.join)

    @contextmanager
    def _job(self, operation: str, images: int) -> Iterator[Job]:
        job, began = Job(next(self.numbers), images, self.length), time.monotonic()
        self.jobs[job.request] = job
        try:
            yield job
        finally:
            del self.jobs[job.request]
            self.tally.end(operation, job, began)
            if job.left and job.failure is None and not self.gone.is_set():
                self.outbox.put(Cancel(job.request))

    def _write(self) -> None:
        """The writer's thread: a full pipe holds up this thread, not the loop."""
        try:
            while True:
                command = self.outbox.get()
                self.connection.send(command)
                if isinstance(command, Stop):
                    return
        except OSError:  # the engine is gone, and the reader says so
            return

    def _read(self) -> None:
        """The reader's thread: hands each list of events to the loop until the engine is gone."""
        try:
            while True:
                self.loop.call_soon_threadsafe(self._receive, self.connection.recv())
        except (EOFError, OSError):
            with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                self.loop.call_soon_threadsafe(self._lost)
        except RuntimeError:  # likewise
            return

    def _receive(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Ready):
                self.ready = event
                self.load_seconds = time.monotonic() - self.started
            elif isinstance(event, Stats):
                self.stats = event
            elif isinstance(event, CannotLoad):
                self.load_error = event.message
            elif job := self.jobs.get(event.request):
                job.receive(event)

    def _lost(self) -> None:
        self.gone.set()
        self.stats = replace(self.stats, requests_running=0, requests_waiting=0, images_running=0, images_waiting=0)
        for job in self.jobs.values():
            job.receive(Failed(job.request, "The engine stopped while it worked on this request."))
