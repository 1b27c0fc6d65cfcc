"""What an API process knows of the main process: the models' state, its own requests there, answers to calls."""

import asyncio
import itertools
import logging
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from scanline.model.sampling.messages import Event
from scanline.server.engine.job import PendingJob
from scanline.server.engine.pipe import Pipe
from scanline.server.engine.remote.messages import (
    Alive,
    Answer,
    Begin,
    CollectMetrics,
    Drained,
    Leave,
    Reload,
    Statuses,
)
from scanline.server.engine.remote.shared_engine import SharedEngine
from scanline.server.process.registry import ModelRegistry, ServedModel, queue_limits, served_model
from scanline.server.settings import Settings

log = logging.getLogger("scanline.server")


class MainProcess:
    """The main process as an API process sees it; also its reloader (`Reloader`)."""

    metrics: CollectorRegistry | None = None  # of this process

    def __init__(self, connection: Connection, settings: Settings, statuses: Statuses) -> None:
        self.processes = settings.api_processes
        self.request_ids = itertools.count()
        self.jobs: dict[int, PendingJob] = {}  # that the main process may send events of
        self.calls: dict[int, asyncio.Future[Any]] = {}
        self.call_ids = itertools.count()
        self.all_drained = asyncio.Event()
        limits = queue_limits(settings)
        handles = [SharedEngine(name, status, limits, self) for name, status in statuses.items()]
        self.models = ModelRegistry(
            [served_model(handle) for handle in handles], settings.max_images_per_request, settings.request_timeout
        )
        self.pipe = Pipe(connection, self._receive, "main-process")

    def begin(self, model: str, job: PendingJob) -> None:
        """Have a job done; its events come to it until it has ended or is left."""
        self.jobs[job.id] = job
        self.pipe.send(Begin(model, job.request))

    def leave(self, job: PendingJob) -> None:
        """Cancel a job where it has not ended; no event comes to it any more."""
        if self.jobs.pop(job.id, None) is not None and not job.has_ended:
            self.pipe.send(Leave(job.id))

    async def collected_metrics(self) -> list[list[Metric]]:
        """Return the metrics of every API process that answers, this one included."""
        families: list[list[Metric]] = await self._call(CollectMetrics(next(self.call_ids)))
        return families

    async def wait_until_all_drained(self) -> None:
        """This process has drained: return when all others have, too. Until then it answers probes, and that the server
        is shutting down.
        """
        self.pipe.send(Drained())
        await self.all_drained.wait()

    def request_all(self) -> None:
        """Nothing: the main process has got the signal, too."""

    async def reload(self, name: str, wait: bool = False) -> ServedModel:
        """Have the main process load a model again; exceptions as of its reloader."""
        model = self.models.find(name)
        await self._call(Reload(next(self.call_ids), model.id))
        return self.models.find(name)

    async def close(self) -> None:
        """Nothing: engines that are being replaced are the main process's."""

    async def _call(self, message: Reload | CollectMetrics) -> Any:
        answered = self.calls[message.call] = asyncio.get_running_loop().create_future()
        try:
            self.pipe.send(message)
            answer = await answered
        finally:
            del self.calls[message.call]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _receive(self, messages: Iterable[Any]) -> None:
        for message in messages:
            match message:
                case dict():
                    self._take(message)
                    self.pipe.send(Alive())
                case Answer():
                    if (call := self.calls.get(message.call)) and not call.done():
                        call.set_result(message.value)
                case Drained():
                    self.all_drained.set()
                case CollectMetrics():
                    assert self.metrics is not None
                    self.pipe.send(Answer(message.call, list(self.metrics.collect())))
                case _:
                    self._give(message)

    def _give(self, event: Event) -> None:
        if job := self.jobs.get(event.request):  # type: ignore[union-attr]  # those without a request are not relayed
            job.receive(event)
            if job.has_ended:
                del self.jobs[job.id]

    def _take(self, statuses: Statuses) -> None:
        """Take in the engines' newest state. A model that was loaded again has another directory, and a new handle."""
        for name, status in statuses.items():
            engine = self.models.all[name].engine
            assert isinstance(engine, SharedEngine)
            if status.directory == engine.directory:
                engine.take(status)
                continue
            new = SharedEngine(name, status, engine.admission.limits, self)
            new.succeed(engine)
            try:
                self.models.all[name] = served_model(new)
            except ValueError as error:  # its files are gone again: there is a still newer one
                log.warning("%s", error)
