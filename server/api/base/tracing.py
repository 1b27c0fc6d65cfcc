"""OpenTelemetry: a span for each request, by OpenTelemetry's own instrumentation of ASGI, and
within it spans for a job's time in the queue and its painting.

A request that carries a `traceparent` header joins that trace. What is in a request's log line is
in its span. The packages are the extra `otel`; they are imported only when --otlp-endpoint, or one
of OpenTelemetry's own variables, names a collector.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from starlette.middleware import Middleware
from starlette.types import Scope
from structlog.contextvars import bind_contextvars, get_contextvars

from scanline.model.base.extras import MissingExtraError, version
from scanline.model.sampling.base.messages import ScoreRequest
from scanline.server.engine.job import Job

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
TRACER: ContextVar["Tracer | None"] = ContextVar("tracer", default=None)  # of the current request
NANOSECONDS = 1_000_000_000


def tracer_provider(endpoint: str | None) -> "TracerProvider | None":
    """Return a provider that exports spans over OTLP/HTTP until its
    shutdown, or None if no collector is named.

    Raises ValueError if the packages are not installed.
    """
    if endpoint is None and not any(os.environ.get(name) for name in ENDPOINT_VARIABLES):
        return None
    try:
        import opentelemetry.instrumentation.asgi  # noqa: F401  a part of the extra, used by `middleware`
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        raise MissingExtraError("--otlp-endpoint", "otel") from None
    # the names of attributes that are stable, as the specification has them
    os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
    exporter = (
        OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces") if endpoint else OTLPSpanExporter()
    )
    name = os.environ.get("OTEL_SERVICE_NAME") or "scanline"
    provider = TracerProvider(
        resource=Resource.create({"service.name": name, "service.version": version()})
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def middleware(provider: "TracerProvider", unseen: Collection[str]) -> Middleware:
    """Return what makes a span of each request and websocket; `unseen` are paths that get none."""
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

    tracer = provider.get_tracer("scanline")

    def begin(span: "Span", scope: Scope) -> None:
        TRACER.set(tracer)

    return Middleware(
        OpenTelemetryMiddleware,
        excluded_urls=",".join(f"{path}$" for path in sorted(unseen)),
        tracer=tracer,
        exclude_spans=["receive", "send"],
        server_request_hook=begin,
    )


def name_request_span(method: str, path: str) -> None:
    """Write to the span of the current request, where it has one, what is known only at its end."""
    if TRACER.get() is None:
        return
    from opentelemetry.trace import get_current_span

    span = get_current_span()
    span.update_name(f"{method} {path}")
    span.set_attributes({"http.request.method": method, "http.route": path, **_log_fields()})


@contextmanager
def job_span() -> Iterator[None]:
    """Yield a span of a job on a websocket, for as long as the context lasts."""
    tracer = TRACER.get()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span("websocket job") as span:
        try:
            yield
        finally:
            fields = _log_fields()
            span.set_attributes(fields)
            if "scanline.error" in fields:
                _set_error(span)


def record_phases(job: Job, began: int) -> None:
    """Log the seconds in the queue of a job that has ended, and export its phases as spans: `queue`
    and `paint`, or `score` alone, since a scoring job has no slot. began: by `time.time_ns`.
    """
    if job.queue_seconds is not None:
        bind_contextvars(queued=round(job.queue_seconds, 6))
    if (tracer := TRACER.get()) is None:
        return
    now = time.time_ns()
    scored = isinstance(job.request, ScoreRequest)
    scheduled = (
        now if job.queue_seconds is None else min(now, began + int(job.queue_seconds * NANOSECONDS))
    )
    if not scored:
        tracer.start_span("queue", start_time=began).end(scheduled)
    if scored or job.queue_seconds is not None:
        attributes = {"scanline.images": job.total, "scanline.images_left": job.images_left}
        name, start = ("score", began) if scored else ("paint", scheduled)
        tracer.start_span(name, start_time=start, attributes=attributes).end(now)


def _log_fields() -> Mapping[str, Any]:
    """Return what has been bound to the log's context, as span attributes."""
    return {
        f"scanline.{name}": value for name, value in get_contextvars().items() if value is not None
    }


def _set_error(span: "Span") -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR))
