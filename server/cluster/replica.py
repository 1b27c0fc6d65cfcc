"""A replica: one model's engine under Serve. It paints shards for
ingresses and reports its status.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace

from ray.serve import metrics

from scanline.model import zoo
from scanline.model.formats.model_dir import load_config, model_name, read_defaults
from scanline.model.sampling.base.messages import Event, Failed, Request
from scanline.server.api.routes.metrics import ENGINE_METRICS, PREFIX
from scanline.server.cluster.arguments import ClusterSettings
from scanline.server.cluster.router import DIGEST
from scanline.server.engine.handle import EngineHandle, EngineUnavailableError
from scanline.server.engine.job import Job
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.remote.over_ray import OtherModelError, Route
from scanline.server.engine.remote.relay_job import RelayJob
from scanline.server.engine.remote.status import EngineStatus
from scanline.server.models.registry import engine_options
from scanline.server.runtime import logs
from scanline.server.runtime.secret_variables import withhold

# seconds without a poll after which an ingress no longer counts, nor its images in flight
INGRESS_TIMEOUT = 60.0
SIGN_SECONDS = 5.0  # between two messages about a shard, at most
LOAD_POLL_SECONDS = 0.05
# between two lists of events of a job, for each job in progress: a list's cost is per list
SECONDS_PER_JOB = 0.001
EXPORTED = (  # of the metrics of GET /metrics
    "num_images_running",
    "num_images_waiting",
    "batch_slots",
    "generation_tokens",
    "engine_restarts",
    "engine_up",
    "engine_heartbeat_age_seconds",
)


class Replica:
    """The class that Serve deploys, once for each model."""

    async def __init__(self, settings: ClusterSettings, model: str) -> None:  # type: ignore[misc]  # Serve awaits it
        logs.configure(settings.log_format, settings.log_level)
        withhold()
        directory = zoo.find(model).resolve()
        options = engine_options(settings, directory, _threads(settings))
        self.gauges = ReplicaGauges(model_name(directory))
        self.target_share = settings.target_share
        self.name = secrets.token_hex(8)  # by which ingresses add up what replicas have done
        # by ingress: the time of its last poll, and its images
        self.in_flight: dict[str, tuple[float, int]] = {}
        self.engine = EngineClient(options)
        self.config = load_config(self.engine.directory)
        self.defaults = read_defaults(self.engine.directory, self.config)
        self.engine.start()
        while self.engine.ready is None:
            if self.engine.failed.is_set():
                raise ValueError(
                    f"{model} cannot be loaded: {self.engine.load_error or 'its engine died'}"
                )
            await asyncio.sleep(LOAD_POLL_SECONDS)

    async def run(self, command: Request, route: Route) -> AsyncIterator[list[Event]]:
        """Yield the engine's events for a shard; closing the iterator
        cancels it. `route` is the router's.

        EngineUnavailableError where the engine failed for good, OtherModelError where the shard
        belongs to another model: another replica can still paint the shard.
        """
        self._check_model(command)
        events: list[Event] = []
        job = RelayJob(command, next(self.engine.request_ids), events.append)
        with self.engine.run(job):
            async for sent in batches(job, events, lambda: len(self.engine.jobs) * SECONDS_PER_JOB):
                if any(isinstance(event, Failed) for event in sent):
                    if self.engine.failed.is_set():
                        raise EngineUnavailableError
                    # the engine may have been replaced since the shard came
                    self._check_model(command)
                yield sent

    async def status(self, ingress: str, images: int) -> EngineStatus:
        """Return this replica's status; `images`: in flight of the calling
        ingress, on all replicas together.
        """
        # Serve asks for the statistics below only where it autoscales.
        self._forget_silent()
        self.in_flight[ingress] = time.monotonic(), images
        self.gauges.update(self.engine)
        return replace(EngineStatus.of(self.engine, self.config, self.defaults), replica=self.name)

    def check_health(self) -> None:
        """Raise RuntimeError where the engine does not come back:
        Serve then replaces this replica.
        """
        if self.engine.failed.is_set():
            raise RuntimeError("the engine failed and is not restarted")
        limit = self.engine.options.timeout + self.engine.options.load_timeout
        if self.engine.heartbeat_age > limit:
            raise RuntimeError(f"the engine has been silent for more than {limit:g} seconds")

    def record_routing_stats(self) -> dict[str, str]:
        """Return what the router chooses by, besides the images that it counts itself: the digest
        of the model and its class head."""
        assert self.engine.ready is not None
        return {DIGEST: self.engine.ready.whole_digest}

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the images in flight of all ingresses, and how many
        of them one replica should have.
        """
        assert self.engine.ready is not None
        self._forget_silent()
        images = sum(images for _, images in self.in_flight.values())
        return {"images": images, "target_images": self.target_share * self.engine.ready.slots}

    def _forget_silent(self) -> None:
        oldest = time.monotonic() - INGRESS_TIMEOUT
        self.in_flight = {
            ingress: poll for ingress, poll in self.in_flight.items() if poll[0] > oldest
        }

    def _check_model(self, command: Request) -> None:
        """OtherModelError where a shard belongs to another model than this replica has now."""
        assert self.engine.ready is not None
        digest = self.engine.ready.whole_digest
        if not digest.startswith(command.digest):
            raise OtherModelError(f"its model is {digest}, the request's is {command.digest}")

    async def __del__(self) -> None:
        await self.engine.close()


def _threads(settings: ClusterSettings) -> int:
    """Return the engine's threads; "auto" is the number of processors
    that Serve reserves for the replica.
    """
    return max(1, int(settings.cpus)) if settings.threads == "auto" else settings.threads


async def batches(
    job: Job, events: list[Event], pause: Callable[[], float]
) -> AsyncIterator[list[Event]]:
    """Yield a job's events in order, in lists at least `pause()` seconds
    apart; the last list does not wait.

    Only the job's end interrupts a pause: each interruption wakes this task and sends a list. Where
    there are no events for some seconds, an empty list is a sign of life.
    """
    while events or not job.has_ended:
        job.changed.clear()
        if events:
            sent = events.copy()
            events.clear()
            yield sent
            with suppress(TimeoutError):
                await asyncio.wait_for(job.ended.wait(), pause())
        else:
            try:
                async with asyncio.timeout(SIGN_SECONDS):
                    await job.changed.wait()
            except TimeoutError:
                yield []


class ReplicaGauges:
    """One gauge for each of EXPORTED in Ray's own exporter, which every
    machine of a cluster offers to Prometheus.

    Ray prefixes the names with `ray_` and adds Serve's tags: `ray_scanline_num_images_running`.
    """

    def __init__(self, model: str) -> None:
        self.values = {}
        for name in EXPORTED:
            metric = ENGINE_METRICS[name]
            gauge = metrics.Gauge(PREFIX + name, metric.about, ("model_name",))
            gauge.set_default_tags({"model_name": model})
            self.values[gauge] = metric.value

    def update(self, engine: EngineHandle) -> None:
        """Set all gauges to the engine's present values."""
        for gauge, value in self.values.items():
            gauge.set(value(engine))
