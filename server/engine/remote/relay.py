"""The main process's side of one API process: starts it, relays its requests to the engines and their events back."""

import asyncio
import atexit
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from prometheus_client.metrics_core import Metric

from scanline.model.sampling.messages import Event, Failed, Request
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.engine.job import PendingJob
from scanline.server.engine.local.engine_client import MODEL_CHANGED, STOPPED, EngineClient
from scanline.server.engine.pipe import Pipe
from scanline.server.engine.remote.messages import Begin, CollectMetrics, Leave, Statuses
from scanline.server.process import api_process
from scanline.server.process.listening import Listening
from scanline.server.process.signals import HANDLED, start_with_signals_blocked
from scanline.server.settings import Settings

METRICS_SECONDS = 2.0  # that an API process has to send its metrics

log = logging.getLogger("scanline.server")

FindEngine = Callable[[str, str], EngineClient | None]  # by model and digest


class RelayedJob(PendingJob):
    """A request of an API process. It keeps no images: every event goes on at once."""

    def __init__(self, request: Request, model: str, relay: "Relay", id_there: int) -> None:
        super().__init__(request)
        self.model, self.relay, self.id_there = model, relay, id_there

    def receive(self, event: Event) -> None:
        """Pass on an event of the engine."""
        self.relay.pipe.send(replace(event, request=self.id_there))  # type: ignore[arg-type]  # no Ready, no Stats
        super().receive(event)
        if self.has_ended:
            # Later: the engine's handle is among its jobs now.
            self.relay.pipe.loop.call_soon(self.relay.leave, self.id_there)


class Relay:
    """The requests of one API process; `receive` gets what it sends besides them."""

    def __init__(self, connection: Connection, find_engine: FindEngine, receive: Callable[[Any], None]) -> None:
        self.find_engine, self.receive = find_engine, receive
        self.jobs: dict[int, tuple[RelayedJob, ExitStack]] = {}  # by the id that the request has there
        self.pipe = Pipe(connection, self._receive, "api-process")

    def images(self, model: str) -> int:
        """Its images of a model that are not painted, each counted as many times as it takes slots."""
        return sum(job.slots_left for job, _ in self.jobs.values() if job.model == model)

    def leave(self, request: int) -> None:
        """Cancel a request where it has not ended."""
        if found := self.jobs.pop(request, None):
            found[1].close()

    def leave_all(self) -> None:
        """Cancel everything: the process is gone."""
        for request in list(self.jobs):
            self.leave(request)

    def _receive(self, messages: Iterable[Any]) -> None:
        for message in messages:
            match message:
                case Begin():
                    self._begin(message.model, message.request)
                case Leave():
                    self.leave(message.request)
                case _:
                    self.receive(message)

    def _begin(self, model: str, request: Request) -> None:
        engine = self.find_engine(model, request.digest)
        if engine is None:
            self.pipe.send(Failed(request.id, MODEL_CHANGED, "model_changed"))
            return
        job = RelayedJob(replace(request, id=next(engine.request_ids)), model, self, request.id)
        with ExitStack() as stack:
            try:
                stack.enter_context(engine.held())
            except EngineUnavailableError:
                self.pipe.send(Failed(request.id, STOPPED))
                return
            self.jobs[request.id] = job, stack
            stack.enter_context(engine.run(job))
            self.jobs[request.id] = job, stack.pop_all()


class ApiProcess:
    """A started API process."""

    def __init__(
        self,
        settings: Settings,
        listening: Listening,
        statuses: Statuses,
        find_engine: FindEngine,
        answer: Callable[["ApiProcess", Any], None],
    ) -> None:
        """`answer` gets this process and each message of it that is about no request."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = settings, listening, statuses, theirs
        self.process = context.Process(target=api_process.main, args=arguments, name="scanline-api", daemon=True)
        start_with_signals_blocked(self.process, HANDLED)
        theirs.close()
        atexit.register(self.process.kill)  # multiprocessing would otherwise wait for a process that drains
        self.relay = Relay(ours, find_engine, partial(answer, self))
        self.metrics: dict[int, asyncio.Future[list[Metric]]] = {}  # by call
        self.has_drained = False
        self.was_silent = False  # at the last check
        log.info("an API process has started, process %s", self.process.pid)

    async def ended(self) -> int:
        """Return its exit status once it is gone; its requests are cancelled."""
        await self.relay.pipe.closed.wait()
        self.relay.leave_all()
        for call in self.metrics.values():
            call.cancel()
        await asyncio.to_thread(self.process.join)
        await asyncio.to_thread(self.relay.pipe.close)
        atexit.unregister(self.process.kill)
        assert self.process.exitcode is not None
        return self.process.exitcode

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def check(self, seconds: float) -> None:
        """Kill it where it was silent for so long at two checks in a row: one alone may be a stall of this process."""
        is_silent = self.relay.pipe.silence > seconds
        if is_silent and self.was_silent:
            log.error("an API process is silent for %g seconds and is killed, process %s", seconds, self.process.pid)
            self.signal(signal.SIGKILL)
        self.was_silent = is_silent

    async def collect(self, call: int) -> list[Metric]:
        """Return its metrics; none where it does not answer in time."""
        answered = self.metrics[call] = asyncio.get_running_loop().create_future()
        self.relay.pipe.send(CollectMetrics(call))
        try:
            return await asyncio.wait_for(answered, METRICS_SECONDS)
        except (TimeoutError, asyncio.CancelledError):
            return []
        finally:
            del self.metrics[call]
