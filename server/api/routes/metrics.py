"""GET /metrics: Prometheus' text format, or OpenMetrics if the client accepts it.

Every value is read from its owner once the request has come; nothing is measured here. Names end as
vLLM's do, so that dashboards can be ported.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cache
from importlib import metadata
from itertools import accumulate

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
Value = Callable[[EngineHandle], float]
Encoder = Callable[[Collector], bytes]

GAUGES: dict[str, tuple[str, Value]] = {
    "num_requests_running": (
        "Requests with at least one image scheduled.",
        lambda e: e.stats.requests_running,
    ),
    "num_requests_waiting": (
        "Requests waiting for their first slot.",
        lambda e: e.stats.requests_waiting,
    ),
    "num_images_running": (
        "Images in flight, each particle of a completion counted, a guided image twice.",
        lambda e: e.stats.images_running,
    ),
    "num_images_scoring": (
        "Images being scored; they have no slot.",
        lambda e: e.stats.scores_running,
    ),
    "num_images_waiting": ("Accepted images waiting for slots.", lambda e: e.stats.images_waiting),
    "num_images_reserved": (
        "Images that were accepted and are not painted yet, each particle counted, a guided image twice.",
        lambda e: e.reserved_images,
    ),
    "unread_bytes": (
        "Bytes of finished images of unanswered requests.",
        lambda e: e.admission.total.unread_bytes,
    ),
    "num_jobs": ("Requests in progress, waiting ones included.", lambda e: len(e.jobs)),
    "max_waiting_images": (
        "Limit of waiting images, each particle counted, a guided image twice; requests beyond it are rejected.",
        lambda e: e.max_waiting_images,
    ),
    "engine_up": ("1 if the engine can paint, 0 otherwise.", lambda e: e.is_ready),
    "engine_heartbeat_age_seconds": (
        "Seconds since the engine's last message.",
        lambda e: e.heartbeat_age,
    ),
}
LOADED_GAUGES: dict[str, tuple[str, Value]] = {  # only of models that have been loaded
    "batch_slots": (
        "Slots: images, or particles, that can be in flight at once.",
        lambda e: e.slots,
    ),
    "batch_slot_usage_ratio": (
        "Fraction of the slots in use.",
        lambda e: min(1.0, e.stats.images_running / e.slots),
    ),
    "model_load_duration_seconds": (
        "Seconds from the engine's start until it was ready.",
        lambda e: e.load_seconds,
    ),
}
COUNTERS: dict[str, tuple[str, Value]] = {
    "generation_tokens": (
        "Bytes painted, and known ones that were stepped over.",
        lambda e: e.stats.painted_bytes,
    ),
    "prompt_tokens": (
        "Known bytes at the start of images, processed by prefill.",
        lambda e: e.stats.known_bytes,
    ),
    "prefix_cache_hits": (
        "Bytes of generation_tokens that took no step: other images had painted the same from the start.",
        lambda e: e.stats.shared_bytes,
    ),
    "engine_steps": (
        "Steps; each paints a byte, or a whole pixel, of every image in flight.",
        lambda e: e.stats.steps,
    ),
    "engine_restarts": ("Engine restarts after a crash or a hang.", lambda e: e.restarts),
    "stream_frames_coalesced": (
        "Updates of streamed images that were merged because the client was behind.",
        lambda e: e.coalesced,
    ),
}
HISTOGRAMS: dict[str, tuple[str, Callable[[EngineHandle], Histogram]]] = {
    "request_queue_time_seconds": (
        "Seconds from acceptance to the first image's slot.",
        lambda e: e.stats.queue,
    ),
    "time_to_first_token_seconds": (
        "Seconds from acceptance to the first painted byte.",
        lambda e: e.stats.first_pixel,
    ),
    "engine_step_duration_seconds": (
        "Seconds of one step of the whole batch.",
        lambda e: e.stats.step_seconds,
    ),
    "engine_step_batch_size": ("Images in flight during a step.", lambda e: e.stats.step_images),
}
# Metrics of an engine, the same from every API process; all others are
# counted by the process that answers.
OF_ENGINE = {
    *(GAUGES.keys() - {"num_images_reserved", "unread_bytes", "num_jobs", "max_waiting_images"}),
    *LOADED_GAUGES,
    *(COUNTERS.keys() - {"stream_frames_coalesced"}),
    *HISTOGRAMS,
    "model_info",
}


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
            yield CounterMetricFamily(PREFIX + "log_lines_dropped", about, value=dropped_lines())
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
    yield from _gauges(GAUGES, models)
    yield from _gauges(LOADED_GAUGES, loaded)
    for name, (about, value) in COUNTERS.items():
        counter = CounterMetricFamily(PREFIX + name, about, labels=["model_name"])
        for model in models:
            counter.add_metric([model.id], value(model.engine))
        yield counter
    for name, (about, histogram) in HISTOGRAMS.items():
        yield _histograms(name, about, {(model.id,): histogram(model.engine) for model in models})
    yield from _request_counters(models)


def _of_http(counters: HttpCounters) -> Iterator[Metric]:
    """Yield the server's build, its HTTP responses and its websockets."""
    build = _build()
    info = GaugeMetricFamily(
        PREFIX + "build_info", "Versions of this server; the value is 1.", labels=list(build)
    )
    info.add_metric(list(build.values()), 1)
    yield info
    responses = CounterMetricFamily(
        PREFIX + "http_requests", "HTTP responses.", labels=["method", "path", "status"]
    )
    for (method, path, status), count in sorted(counters.responses.items()):
        responses.add_metric([method, path, str(status)], count)
    yield responses
    about = "Requests and websocket jobs that ended with an error, by its code."
    failures = CounterMetricFamily(PREFIX + "errors", about, labels=["code"])
    for code, count in sorted(counters.errors.items()):
        failures.add_metric([code], count)
    yield failures
    yield GaugeMetricFamily(
        PREFIX + "websocket_connections", "Open websockets.", value=counters.open_websockets
    )


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
    yield _histograms("event_loop_lag_seconds", about, {(): lag.seconds}, ())
    about = "The longest lag of the event loop in the last minute."
    yield GaugeMetricFamily(PREFIX + "event_loop_lag_max_seconds", about, value=lag.recent_max)


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
        yield GaugeMetricFamily(PREFIX + name, about, value=budget.used)
        yield GaugeMetricFamily(
            f"{PREFIX}{name}_limit", f"{about[:-1]}: the most there may be.", value=budget.limit
        )


def _of_keys(keys: ApiKeys, models: ModelRegistry, http: HttpCounters) -> Iterator[Metric]:
    """Yield requests and images of each API key, under the key's name; from the
    start, as 0, for all present keys.
    """
    names = keys.names
    about = "HTTP requests and websockets, by the name of their API key."
    requests = CounterMetricFamily(PREFIX + "http_requests_by_key", about, labels=["key_name"])
    for name in sorted({*names, *http.by_key}):
        requests.add_metric([name], http.by_key[name])
    yield requests
    about = "Images of accepted requests that were finished, by the name of their API key."
    images = CounterMetricFamily(PREFIX + "images_by_key", about, labels=["model_name", "key_name"])
    for model in models.all.values():
        finished = model.engine.counters.images_by_key
        for name in sorted({*names, *finished}):
            images.add_metric([model.id, name], finished[name])
    yield images


def _model_info(models: Iterable[ServedModel]) -> Metric:
    labels = ["model_name", "precision", "backend", "device", "size"]
    info = GaugeMetricFamily(
        PREFIX + "model_info", "How each model is run; the value is always 1.", labels=labels
    )
    for model in models:
        ready = model.engine.ready
        assert ready is not None
        info.add_metric(
            [
                model.id,
                model.engine.options.precision,
                ready.backend,
                ready.device,
                model.config.size,
            ],
            1,
        )
    return info


def _gauges(
    gauges: dict[str, tuple[str, Value]], models: Iterable[ServedModel]
) -> Iterator[Metric]:
    for name, (about, value) in gauges.items():
        gauge = GaugeMetricFamily(PREFIX + name, about, labels=["model_name"])
        for model in models:
            gauge.add_metric([model.id], value(model.engine))
        yield gauge


def _request_counters(models: Iterable[ServedModel]) -> Iterator[Metric]:
    """Yield the counters of requests and images by outcome, and of rejected requests.

    All label values are exported from the start, as 0, so that
    rate() is defined before the first event.
    """
    labels = ["model_name", "operation", "finished_reason"]
    jobs = CounterMetricFamily(
        PREFIX + "request_success", "Accepted requests that ended, by outcome.", labels=labels
    )
    done = CounterMetricFamily(
        PREFIX + "images", "Images of accepted requests that ended, by outcome.", labels=labels
    )
    refused = CounterMetricFamily(
        PREFIX + "requests_rejected",
        "Requests that were not accepted, by reason.",
        labels=["model_name", "reason"],
    )
    for model in models:
        counters = model.engine.counters
        for operation in OPERATIONS:
            for end in ENDS:
                jobs.add_metric([model.id, operation, end], counters.requests[operation, end])
                done.add_metric([model.id, operation, end], counters.images[operation, end])
        for reason in REFUSALS:
            refused.add_metric([model.id, reason], counters.refused[reason])
    yield from (jobs, done, refused)
    seconds: dict[tuple[str, ...], Histogram] = {
        (model.id, name): histogram
        for model in models
        for name, histogram in model.engine.counters.seconds.items()
    }
    about = "Seconds from acceptance until the last image was taken, of requests that finished."
    yield _histograms("e2e_request_latency_seconds", about, seconds, ("model_name", "operation"))


def _histograms(
    name: str,
    about: str,
    histograms: dict[tuple[str, ...], Histogram],
    labels: tuple[str, ...] = ("model_name",),
) -> Metric:
    """Return the histograms of one metric, by the values of its labels."""
    family = HistogramMetricFamily(PREFIX + name, about, labels=labels)
    for values, histogram in histograms.items():
        bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
        family.add_metric(
            list(values),
            list(zip(bounds, accumulate(histogram.counts), strict=True)),
            histogram.sum,
        )
    return family
