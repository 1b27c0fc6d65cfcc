"""The main process as an API process sees it: its models, reloads of them, and
the metrics of all API processes.
"""

import logging
from multiprocessing.connection import Connection
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from scanline.server.engine.remote.over_pipe import ApiEnd, PipedEngine, Statuses
from scanline.server.models.registry import ServedModel, model_registry, queue_limits, served_model
from scanline.server.settings import Settings

log = logging.getLogger("scanline.server")


class MainProcess:
    """Also the reloader (`Reloader`) of an API process."""

    metrics: CollectorRegistry | None = None  # of this process

    def __init__(self, connection: Connection, settings: Settings, statuses: Statuses) -> None:
        self.pipe = ApiEnd(connection, self._update, {"metrics": self._metrics})
        limits = queue_limits(settings)
        engines = [
            PipedEngine(name, status, limits, settings.api_processes, self.pipe)
            for name, status in statuses.items()
        ]
        self.replaced: list[PipedEngine] = []  # by reloads, and still needed
        self.models = model_registry(settings, [served_model(engine) for engine in engines])

    def silence(self) -> float:
        """Return the seconds since the main process has sent something; it
        reports the engines again and again.
        """
        return self.pipe.pipe.silence

    async def collected_metrics(self) -> list[list[Metric]]:
        """Return the metrics of every API process that answers, this one included."""
        families: list[list[Metric]] = await self.pipe.call("metrics")
        return families

    async def wait_until_all_drained(self) -> None:
        """Return once all API processes have drained, as this one has.

        Until then it answers probes, and that the server is shutting down.
        """
        await self.pipe.call("drained")

    def request_all(self) -> None:
        """Do nothing: the main process got the signal, too."""

    async def reload(self, name: str, wait: bool = False) -> ServedModel:
        """Have the main process reload a model; exceptions as of its reloader."""
        if error := await self.pipe.call("reload", self.models.find(name).id):
            raise error
        return self.models.find(name)

    async def close(self) -> None:
        """Do nothing: engines that are being replaced are the main process's."""

    async def _metrics(self, _: Any) -> list[Metric]:
        assert self.metrics is not None
        return list(self.metrics.collect())

    def _update(self, statuses: Statuses) -> frozenset[str]:
        """Take in the engines' newest state, and return the digests of those that have requests. A
        model that was reloaded has another directory, and a new handle."""
        for name, status in statuses.items():
            engine = self.models.all[name].engine
            assert isinstance(engine, PipedEngine)
            if status.directory == engine.directory:
                engine.take(status)
                continue
            new = PipedEngine(name, status, engine.admission.limits, engine.sharers, self.pipe)
            new.take_over(engine)
            try:
                self.models.all[name] = served_model(new)
                self.replaced.append(engine)
            except ValueError as error:  # its files are removed already: a newer reload has ended
                log.warning("%s", error)
        self.replaced = [engine for engine in self.replaced if engine.users]
        engines = [*self.replaced, *(model.engine for model in self.models.all.values())]
        return frozenset(
            engine.ready.whole_digest
            for engine in engines
            if engine.users and engine.ready is not None
        )
