"""What GET /metrics tells, read where it is owned at the moment it is asked for: engines, their clients, HTTP.

One registry for each application; nothing is measured here. Names end as vLLM's do, so that dashboards port.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scanline.model.sampling.histogram import Histogram
from scanline.server.api.middleware.http_metrics import HttpCounters
from scanline.server.engine.client.counters import ENDS, OPERATIONS, REFUSALS
from scanline.server.registry import ModelRegistry, ServedModel

PREFIX = "scanline_"
Value = Callable[[ServedModel], float]

GAUGES: dict[str, tuple[str, Value]] = {
    "num_requests_running": ("Requests of which an image has been seated.", lambda m: m.engine.stats.requests_running),
    "num_requests_waiting": ("Requests that wait for their first slot.", lambda m: m.engine.stats.requests_waiting),
    "num_images_running": ("Images in slots.", lambda m: m.engine.stats.images_running),
    "num_images_waiting": ("Accepted images without a slot.", lambda m: m.engine.stats.images_waiting),
    "num_images_reserved": ("Images accepted and not yet answered.", lambda m: m.engine.reserved_images),
    "num_jobs": ("Requests that are kept track of, whatever they wait for.", lambda m: len(m.engine.jobs)),
    "max_waiting_images": ("Images that may wait; more are refused.", lambda m: m.engine.max_waiting_images),
    "engine_up": ("Whether the engine can paint.", lambda m: m.engine.is_ready),
    "engine_heartbeat_age_seconds": ("Since the engine was last heard of.", lambda m: m.engine.heartbeat_age),
}
LOADED_GAUGES: dict[str, tuple[str, Value]] = {  # of models whose engine has loaded
    "batch_slots": ("Images that can be painted at once.", lambda m: m.engine.slots),
    "batch_slot_usage_ratio": ("Share of the slots in use.", lambda m: m.engine.stats.images_running / m.engine.slots),
    "model_load_duration_seconds": ("From the engine's start until it was ready.", lambda m: m.engine.load_seconds),
}
COUNTERS: dict[str, tuple[str, Value]] = {
    "generation_tokens": (
        "Bytes painted, with the known ones that were forced among them.",
        lambda m: m.engine.stats.painted_bytes,
    ),
    "prompt_tokens": ("Known bytes at the front of images, read at once.", lambda m: m.engine.stats.known_bytes),
    "engine_steps": ("Steps, each of a byte of every image in a slot.", lambda m: m.engine.stats.steps),
    "engine_restarts": ("Engines started after the first one, whose death they followed.", lambda m: m.engine.restarts),
    "stream_frames_coalesced": (
        "Pieces of streamed images that were merged because their reader was behind.",
        lambda m: m.engine.coalesced,
    ),
}
HISTOGRAMS: dict[str, tuple[str, Callable[[ServedModel], Histogram]]] = {
    "request_queue_time_seconds": ("From accepted to the first image's slot.", lambda m: m.engine.stats.queue),
    "time_to_first_token_seconds": ("From accepted to the first byte painted.", lambda m: m.engine.stats.first_pixel),
    "engine_step_duration_seconds": ("Of one step of the whole batch.", lambda m: m.engine.stats.step_seconds),
    "engine_step_batch_size": ("Images in slots, by step.", lambda m: m.engine.stats.step_images),
}


def registry(models: ModelRegistry, http: HttpCounters) -> CollectorRegistry:
    """All that is told of these models and of HTTP, beside the process's own numbers."""
    registry = CollectorRegistry()
    registry.register(_Models(models))
    registry.register(_Http(http))
    ProcessCollector(registry=registry)
    return registry


class _Models(Collector):
    """Every model's numbers, under the label `model_name`."""

    def __init__(self, models: ModelRegistry) -> None:
        self.models = models

    def collect(self) -> Iterator[Metric]:
        models = list(self.models.all.values())
        loaded = [model for model in models if model.engine.ready is not None]
        yield _infos(loaded)
        yield from _gauges(GAUGES, models)
        yield from _gauges(LOADED_GAUGES, loaded)
        for name, (about, value) in COUNTERS.items():
            counter = CounterMetricFamily(PREFIX + name, about, labels=["model_name"])
            for model in models:
                counter.add_metric([model.id], value(model))
            yield counter
        for name, (about, histogram) in HISTOGRAMS.items():
            yield _histograms(name, about, {(model.id,): histogram(model) for model in models})
        yield from _tallies(models)


class _Http(Collector):
    """The server's own build, and what it answers over HTTP."""

    def __init__(self, counters: HttpCounters) -> None:
        self.counters = counters

    def collect(self) -> Iterator[Metric]:
        build = {"version": version("scanline"), "python": platform.python_version(), "torch": version("torch")}
        about = GaugeMetricFamily(PREFIX + "build_info", "This build; always 1.", labels=list(build))
        about.add_metric(list(build.values()), 1)
        yield about
        labels = ["method", "path", "status"]
        answers = CounterMetricFamily(PREFIX + "http_requests", "Answers to HTTP requests.", labels=labels)
        for (method, path, status), count in sorted(self.counters.answers.items()):
            answers.add_metric([method, path, str(status)], count)
        yield answers
        told = "Requests, and jobs on websockets, that ended with an error, by its code."
        errors = CounterMetricFamily(PREFIX + "errors", told, labels=["code"])
        for code, count in sorted(self.counters.errors.items()):
            errors.add_metric([code], count)
        yield errors
        yield GaugeMetricFamily(PREFIX + "websocket_connections", "Open websockets.", value=self.counters.websockets)


def _infos(models: Iterable[ServedModel]) -> Metric:
    labels = ["model_name", "precision", "backend", "device", "size"]
    info = GaugeMetricFamily(PREFIX + "model_info", "What paints; always 1.", labels=labels)
    for model in models:
        ready = model.engine.ready
        assert ready is not None
        precision = model.engine.options.precision
        info.add_metric([model.id, precision, ready.backend, ready.device, model.config.size], 1)
    return info


def _gauges(gauges: dict[str, tuple[str, Value]], models: Iterable[ServedModel]) -> Iterator[Metric]:
    for name, (about, value) in gauges.items():
        gauge = GaugeMetricFamily(PREFIX + name, about, labels=["model_name"])
        for model in models:
            gauge.add_metric([model.id], value(model))
        yield gauge


def _tallies(models: Iterable[ServedModel]) -> Iterator[Metric]:
    """How requests and images ended, what was refused. Every reason is there from the start, so that rates are."""
    labels = ["model_name", "operation", "finished_reason"]
    requests = CounterMetricFamily(PREFIX + "request_success", "Accepted requests that ended, by how.", labels=labels)
    images = CounterMetricFamily(PREFIX + "images", "Images of accepted requests that ended, by how.", labels=labels)
    refused = CounterMetricFamily(
        PREFIX + "requests_rejected",
        "Requests without room: the queue is full, or the engine not ready.",
        labels=["model_name", "reason"],
    )
    for model in models:
        counters = model.engine.counters
        for operation in OPERATIONS:
            for end in ENDS:
                requests.add_metric([model.id, operation, end], counters.requests[operation, end])
                images.add_metric([model.id, operation, end], counters.images[operation, end])
        for reason in REFUSALS:
            refused.add_metric([model.id, reason], counters.refused[reason])
    yield from (requests, images, refused)
    seconds: dict[tuple[str, ...], Histogram] = {
        (model.id, name): found for model in models for name, found in model.engine.counters.seconds.items()
    }
    about = "From accepted until all is taken by its answer, of requests that finished."
    yield _histograms("e2e_request_latency_seconds", about, seconds, ("operation",))


def _histograms(
    name: str, about: str, histograms: dict[tuple[str, ...], Histogram], labels: tuple[str, ...] = ()
) -> Metric:
    """Histograms of one name by the values of `model_name` and `labels`."""
    family = HistogramMetricFamily(PREFIX + name, about, labels=["model_name", *labels])
    for values, histogram in histograms.items():
        bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
        family.add_metric(list(values), buckets, histogram.sum)
    return family
