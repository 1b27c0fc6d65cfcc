"""The main process's side of one API process: relays its requests to the engines and their events back."""

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from scanline.model.sampling.messages import Event, Failed, Request
from scanline.server.engine.client.engine_client import MODEL_CHANGED, STOPPED, EngineClient
from scanline.server.engine.client.handle import EngineUnavailableError
from scanline.server.engine.client.job import PendingJob
from scanline.server.processes.messages import Begin, Leave
from scanline.server.processes.pipe import Pipe

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
        self.pipe = Pipe(connection, self._receive)

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
