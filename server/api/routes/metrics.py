"""GET /metrics: Prometheus' text format, or OpenMetrics if the client accepts it.

Every value is read from its owner once the request has come; nothing is measured here. Names end as
vLLM's do, so that dashboards can be ported.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from itertools import accumulate
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scanline.model.base.extras import version
from scanline.model.sampling.base.histogram import Histogram
from scanline.server.api.base.api_keys import ApiKeys
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.openapi import errors
from scanline.server.engine.counters import ENDS, OPERATIONS, REFUSALS
from scanline.server.engine.handle import EngineHandle
from scanline.server.models.registry import ModelRegistry, ServedModel
from scanline.server.runtime.logs import dropped_lines
from scanline.server.runtime.loop_lag import LoopLag

PREFIX = "scanline_"
PAGE_SECONDS = 0.05  # from the beginning of one page, which takes 3 ms, to that of the next
Encoder = Callable[[Collector], bytes]


@dataclass(frozen=True)
class EngineMetric:
    """What is measured of each model's engine."""

    family: type[Metric]
    about: str
    value: Callable[[EngineHandle], Any]
    # by the engine, the same in every API process; else counted by the process that answers
    of_engine: bool = True
    needs_loaded: bool = False  # only of models that have been loaded


gauge = partial(EngineMetric, GaugeMetricFamily)
counter = partial(EngineMetric, CounterMetricFamily)
histogram = partial(EngineMetric, HistogramMetricFamily)

ENGINE_METRICS = {
    "num_requests_running": gauge(
        "Requests with at least one image scheduled.",
        lambda e: e.stats.requests_running,
    ),
    "num_requests_waiting": gauge(
        "Requests waiting for their first slot.",
        lambda e: e.stats.requests_waiting,
    ),
    "num_images_running": gauge(
        "Images in flight, each counted as often as it takes slots.",
        lambda e: e.stats.images_running,
    ),
    "num_images_scoring": gauge(
        "Images being scored; they have no slot.",
        lambda e: e.stats.scores_running,
    ),
    "num_images_waiting": gauge(
        "Accepted images waiting for slots.", lambda e: e.stats.images_waiting
    ),
    "num_images_reserved": gauge(
        "Images that were accepted and are not painted yet, each counted as often as it takes slots.",
        lambda e: e.reserved_images,
        of_engine=False,
    ),
    "unread_bytes": gauge(
        "Bytes of finished images of unanswered requests.",
        lambda e: e.admission.total.unread_bytes,
        of_engine=False,
    ),
    "num_jobs": gauge(
        "Requests in progress, waiting ones included.",
        lambda e: len(e.jobs),
        of_engine=False,
    ),
    "max_waiting_images": gauge(
        "Limit of waiting images, each counted as often as it takes slots; requests beyond it are rejected.",
        lambda e: e.admission.limits.max_waiting_images,
        of_engine=False,
    ),
    "engine_up": gauge("1 if the engine can paint, 0 otherwise.", lambda e: e.is_ready),
    "engine_heartbeat_age_seconds": gauge(
        "Seconds since the engine's last message.", lambda e: e.heartbeat_age
    ),
    "batch_slots": gauge(
        "Slots: images that can be in flight at once, of those that take one slot.",
        lambda e: e.slots,
        needs_loaded=True,
    ),
    "batch_slot_usage_ratio": gauge(
        "Fraction of the slots in use.",
        lambda e: min(1.0, e.stats.images_running / e.slots),
        needs_loaded=True,
    ),
    "model_load_duration_seconds": gauge(
        "Seconds from the engine's start until it was ready.",
        lambda e: e.load_seconds,
        needs_loaded=True,
    ),
    "generation_tokens": counter(
        "Bytes painted, and known ones that were stepped over.",
        lambda e: e.stats.painted_bytes,
    ),
    "prompt_tokens": counter(
        "Known bytes at the start of images, processed by prefill.",
        lambda e: e.stats.known_bytes,
    ),
    "prefix_cache_hits": counter(
        "Bytes of generation_tokens that took no step: other images had painted the same from the start.",
        lambda e: e.stats.shared_bytes,
    ),
    "engine_steps": counter(
        "Passes; each paints a byte, or a whole pixel, of every image in flight, or several that could be guessed.",
        lambda e: e.stats.steps,
    ),
    "engine_computed_rows": counter(
        "Bytes, or whole pixels, of images that passes computed; those after a wrong guess are computed again.",
        lambda e: e.stats.computed_rows,
    ),
    "engine_wrong_guesses": counter(
        "Guesses of bytes that were painted ahead and came out otherwise.",
        lambda e: e.stats.wrong_guesses,
    ),
    "engine_restarts": counter("Engine restarts after a crash or a hang.", lambda e: e.restarts),
    "stream_frames_coalesced": counter(
        "Updates of streamed images that were merged because the client was behind.",
        lambda e: e.coalesced,
        of_engine=False,
    ),
    "request_queue_time_seconds": histogram(
        "Seconds from acceptance to the first image's slot.",
        lambda e: e.stats.queue,
    ),
    "time_to_first_token_seconds": histogram(
        "Seconds from acceptance to the first painted byte.",
        lambda e: e.stats.first_pixel,
    ),
    "engine_step_duration_seconds": histogram(
        "Seconds of one step of the whole batch.",
        lambda e: e.stats.step_seconds,
    ),
    "engine_step_batch_size": histogram(
        "Images in flight during a step.", lambda e: e.stats.step_images
    ),
}
OF_ENGINE = {name for name, metric in ENGINE_METRICS.items() if metric.of_engine} | {"model_info"}


def process_metrics(
    models: ModelRegistry,
    http: HttpCounters,
    lag: LoopLag,
    keys: ApiKeys | None,
    budgets: Budgets | None,
) -> CollectorRegistry:
    """Return what this process measures: these models, HTTP, the
    connections, API keys, the process itself.

    keys: None where none is needed. budgets: None where another program has the connections.
    """

    class Collected(Collector):
        def collect(self) -> Iterator[Metric]:
            yield from _of_models(models)
            yield from _of_http(http)
            yield from _of_event_loop(lag)
            about = "Lines of the log that were not written: its reader stands still or has left."
            dropped = {(): dropped_lines()}
            yield _family(CounterMetricFamily, "log_lines_dropped", about, dropped)
            if keys is not None:
                yield from _of_keys(keys, models, http)
            if budgets is not None:
                yield from _of_budgets(budgets)

    registry = CollectorRegistry()
    registry.register(Collected())
    ProcessCollector(registry=registry)
    return registry


class Pages:
    """Pages of what `gather` finds, one in PAGE_SECONDS: requests that come sooner wait for the
    next one, and share it. So it matters little to others how many requests there are."""

    def __init__(self, gather: Callable[[], Awaitable[Collector]]) -> None:
        self.gather = gather
        self.next_at = 0.0  # the event loop's time
        self.awaited: dict[str, asyncio.Task[bytes]] = {}  # pages that are not begun, by media type

    async def page(self, accept: str) -> tuple[bytes, str]:
        """Return a page that was begun after this call, and its media type."""
        encode, media_type = choose_encoder(accept)
        seconds = self.next_at - asyncio.get_running_loop().time()
        if seconds <= 0 and not self.awaited:
            return await self._render(encode), media_type
        if media_type not in self.awaited:
            self.awaited[media_type] = asyncio.create_task(
                self._render_later(seconds, encode, media_type)
            )
        return await asyncio.shield(self.awaited[media_type]), media_type

    async def _render_later(self, seconds: float, encode: Encoder, media_type: str) -> bytes:
        await asyncio.sleep(seconds)
        del self.awaited[media_type]
        return await self._render(encode)

    async def _render(self, encode: Encoder) -> bytes:
        self.next_at = asyncio.get_running_loop().time() + PAGE_SECONDS
        return encode(await self.gather())


def router(gather: Callable[[], Awaitable[Collector]]) -> APIRouter:
    """Return the route, which answers with what `gather` finds."""
    routes = APIRouter(tags=["metrics"])
    pages = Pages(gather)

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **errors(401)},
    )
    async def metrics(request: Request) -> Response:
        """Return the server's metrics."""
        page, media_type = await pages.page(request.headers.get("accept", ""))
        return Response(page, headers={"content-type": media_type})

    return routes


def _of_models(registry: ModelRegistry) -> Iterator[Metric]:
    """Yield every model's metrics, under the label `model_name`."""
    models = list(registry.all.values())
    loaded = [model for model in models if model.engine.ready is not None]
    yield _model_info(loaded)
    for name, metric in ENGINE_METRICS.items():
        measured = loaded if metric.needs_loaded else models
        values = {(model.id,): metric.value(model.engine) for model in measured}
        yield _family(metric.family, name, metric.about, values, "model_name")
    yield from _request_counters(models)


def _of_http(counters: HttpCounters) -> Iterator[Metric]:
    """Yield the server's build, its HTTP responses and its websockets."""
    build = _build()
    about = "Versions of this server; the value is 1."
    yield _family(GaugeMetricFamily, "build_info", about, {tuple(build.values()): 1}, *build)
    responses = {
        (method, path, str(status)): count
        for (method, path, status), count in sorted(counters.responses.items())
    }
    labels = ("method", "path", "status")
    yield _family(CounterMetricFamily, "http_requests", "HTTP responses.", responses, *labels)
    about = "Requests and websocket jobs that ended with an error, by its code."
    failures = {(code,): count for code, count in sorted(counters.errors.items())}
    yield _family(CounterMetricFamily, "errors", about, failures, "code")
    sockets = {(): counters.open_websockets}
    yield _family(GaugeMetricFamily, "websocket_connections", "Open websockets.", sockets)


@cache
def _build() -> dict[str, str]:
    """Return versions, which are read from files: a third of the time of an answer."""
    return {
        "version": version(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
    }


def _of_event_loop(lag: LoopLag) -> Iterator[Metric]:
    about = "Seconds by which a timer of the event loop fired late, measured 20 times a second."
    yield _family(HistogramMetricFamily, "event_loop_lag_seconds", about, {(): lag.seconds})
    about = "The longest lag of the event loop in the last minute."
    yield _family(GaugeMetricFamily, "event_loop_lag_max_seconds", about, {(): lag.recent_max})


def _of_budgets(budgets: Budgets) -> Iterator[Metric]:
    """Yield what all connections together hold, and its limits."""
    limits = {
        "connections": ("Open connections, websockets included.", budgets.connections),
        "connection_arriving_bytes": (
            "Bytes of bodies and messages that are not answered yet.",
            budgets.arriving,
        ),
        "connection_unread_bytes": (
            "Bytes of answers written to connections and not read by clients.",
            budgets.unread,
        ),
    }
    for name, (about, budget) in limits.items():
        yield _family(GaugeMetricFamily, name, about, {(): budget.used})
        about = f"{about[:-1]}: the most there may be."
        yield _family(GaugeMetricFamily, f"{name}_limit", about, {(): budget.limit})


def _of_keys(keys: ApiKeys, models: ModelRegistry, http: HttpCounters) -> Iterator[Metric]:
    """Yield requests and images of each API key, under the key's name; from the
    start, as 0, for all present keys.
    """
    about = "HTTP requests and websockets, by the name of their API key."
    requests = {(name,): http.by_key[name] for name in sorted({*keys.names, *http.by_key})}
    yield _family(CounterMetricFamily, "http_requests_by_key", about, requests, "key_name")
    about = "Images of accepted requests that were finished, by the name of their API key."
    images: dict[tuple[str, ...], int] = {}
    for model in models.all.values():
        finished = model.engine.counters.images_by_key
        for name in sorted({*keys.names, *finished}):
            images[model.id, name] = finished[name]
    yield _family(CounterMetricFamily, "images_by_key", about, images, "model_name", "key_name")


def _model_info(models: Iterable[ServedModel]) -> Metric:
    values: dict[tuple[str, ...], int] = {}
    for model in models:
        ready = model.engine.ready
        assert ready is not None
        precision = model.engine.options.precision
        values[model.id, precision, ready.backend, ready.device, model.config.size] = 1
    about = "How each model is run; the value is always 1."
    labels = ("model_name", "precision", "backend", "device", "size")
    return _family(GaugeMetricFamily, "model_info", about, values, *labels)


def _request_counters(models: Iterable[ServedModel]) -> Iterator[Metric]:
    """Yield the counters of requests and images by outcome, and of rejected requests.

    All label values are exported from the start, as 0, so that
    rate() is defined before the first event.
    """
    requests: dict[tuple[str, ...], int] = {}
    images: dict[tuple[str, ...], int] = {}
    refused: dict[tuple[str, ...], int] = {}
    seconds: dict[tuple[str, ...], Histogram] = {}
    for model in models:
        counters = model.engine.counters
        for operation in OPERATIONS:
            for end in ENDS:
                requests[model.id, operation, end] = counters.requests[operation, end]
                images[model.id, operation, end] = counters.images[operation, end]
            seconds[model.id, operation] = counters.seconds[operation]
        for reason in REFUSALS:
            refused[model.id, reason] = counters.refused[reason]
    outcome = ("model_name", "operation", "finished_reason")
    about = "Accepted requests that ended, by outcome."
    yield _family(CounterMetricFamily, "request_success", about, requests, *outcome)
    about = "Images of accepted requests that ended, by outcome."
    yield _family(CounterMetricFamily, "images", about, images, *outcome)
    about = "Requests that were not accepted, by reason."
    yield _family(CounterMetricFamily, "requests_rejected", about, refused, "model_name", "reason")
    about = "Seconds from acceptance until the last image was taken, of requests that finished."
    name = "e2e_request_latency_seconds"
    yield _family(HistogramMetricFamily, name, about, seconds, "model_name", "operation")


def _family(
    family: type[Metric],
    name: str,
    about: str,
    values: Mapping[Any, Any],
    *labels: str,
) -> Metric:
    """Return a metric with a number, or a Histogram, for each combination of values of the labels."""
    made: Any = family(PREFIX + name, about, labels=labels)  # type: ignore[call-arg]
    for of_labels, value in values.items():
        if isinstance(value, Histogram):
            bounds = [*(f"{bound:g}" for bound in value.bounds), "+Inf"]
            buckets = list(zip(bounds, accumulate(value.counts), strict=True))
            made.add_metric(of_labels, buckets, value.sum)
        else:
            made.add_metric(of_labels, value)
    return made
