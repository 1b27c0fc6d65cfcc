"""A replica: one model's engine in Serve's hands. It paints what fronts ask for and tells how it stands."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from scanline.model import zoo
from scanline.model.config import ModelConfig
from scanline.model.formats.model_dir import load_config
from scanline.model.sampling.messages import Event, Failed, GenerateRequest, Ready, ScoreRequest, Stats
from scanline.server import logs
from scanline.server.cluster.metrics import Gauges
from scanline.server.cluster.relay import RelayJob
from scanline.server.cluster.settings import ClusterSettings
from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.engine.client.handle import EngineUnavailableError
from scanline.server.registry import engine_options

FORGOTTEN = 60.0  # seconds: a front that asks no more is gone, and so is what it had in flight
LOOK_SECONDS = 0.05
EACH_SECONDS = 0.001  # between two lists of events that go to fronts: what one costs all who handle it


@dataclass(frozen=True)
class ReplicaStatus:
    """How a replica stands."""

    config: ModelConfig
    ready: Ready
    stats: Stats
    restarts: int  # of its engine
    heartbeat_age: float
    load_seconds: float
    is_up: bool  # whether its engine can paint now


class Replica:
    """The class that Serve deploys, once for each model."""

    async def __init__(self, settings: ClusterSettings, model: str) -> None:  # type: ignore[misc]  # Serve awaits it
        logs.configure(settings.log_format, settings.log_level)
        directory = zoo.find(model).resolve()
        options = engine_options(settings, directory, _threads(settings))
        self.config = load_config(directory)
        self.gauges = Gauges(directory.name)
        self.share = settings.target_share
        self.demands: dict[str, tuple[float, int]] = {}  # when each front told its images in flight, and how many
        self.engine = EngineClient(options)
        self.engine.start()
        while self.engine.ready is None:
            if self.engine.failed.is_set():
                raise ValueError(f"{model} cannot be loaded: {self.engine.load_error or 'its engine died'}")
            await asyncio.sleep(LOOK_SECONDS)

    async def work(self, command: GenerateRequest | ScoreRequest) -> AsyncIterator[list[Event]]:
        """The engine's events for a front's request; leaving it cancels it.

        EngineUnavailableError where the engine is gone for good: another replica's is not.
        """
        errand = RelayJob(replace(command, id=next(self.engine.request_ids)))
        with self.engine.run(errand):
            async for events in errand.events(lambda: len(self.engine.jobs) * EACH_SECONDS):
                if self.engine.failed.is_set() and any(isinstance(event, Failed) for event in events):
                    raise EngineUnavailableError
                yield events

    async def tell(self, front: str, images: int) -> ReplicaStatus:
        """How this replica stands, for a front that has so many images in flight, wherever they are painted."""
        self.demands[front] = time.monotonic(), images
        engine = self.engine
        self.gauges.show(engine)
        assert engine.ready is not None
        age, load = engine.heartbeat_age, engine.load_seconds
        return ReplicaStatus(self.config, engine.ready, engine.stats, engine.restarts, age, load, engine.is_ready)

    def check_health(self) -> None:
        """Raises where the engine does not come back: Serve then replaces this replica."""
        if self.engine.failed.is_set():
            raise RuntimeError("the engine is gone for good")
        limit = self.engine.options.timeout + self.engine.options.load_timeout
        if self.engine.heartbeat_age > limit:
            raise RuntimeError(f"nothing was heard of the engine for {limit:g} seconds")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """For `by_images`: images in flight of all fronts, and how many of them one replica should have."""
        assert self.engine.ready is not None
        late = time.monotonic() - FORGOTTEN
        self.demands = {front: told for front, told in self.demands.items() if told[0] > late}
        images = sum(images for _, images in self.demands.values())
        return {"images": images, "room": self.share * self.engine.ready.slots}

    async def __del__(self) -> None:
        await self.engine.close()


def _threads(settings: ClusterSettings) -> int:
    """Those that are set, or for auto the processors that Serve has set apart for it."""
    return max(1, int(settings.cpus)) if settings.threads == "auto" else settings.threads
