"""Spans of requests, where somebody traces: the request, and within it each job's time in the queue and in the paint.

A request that comes with a `traceparent` is part of that trace. What stands in a request's line of the log stands in
its span. Without a tracer none of this costs anything: the middleware is not there.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, get_contextvars

from scanline.server.api.middleware.asgi import STARTS, method_of, path_of, status_of
from scanline.server.engine.client.job import Job

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

TRACER: ContextVar["Tracer | None"] = ContextVar("tracer", default=None)  # of the request in work
NANO = 1_000_000_000


class Traced:
    """A span for each request and each websocket."""

    def __init__(self, app: ASGIApp, tracer: "Tracer") -> None:
        self.app, self.tracer = app, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        carried = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method, status = method_of(scope), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] in STARTS:
                status = status_of(message)
            await send(message)

        TRACER.set(self.tracer)
        with self.tracer.start_as_current_span(method, extract(carried), SpanKind.SERVER) as span:
            await self.app(scope, receive, watched)
            path = path_of(scope)
            span.update_name(f"{method} {path}")
            span.set_attributes({"http.request.method": method, "http.route": path})
            span.set_attributes({"http.response.status_code": status, **_known()})
            _judge(span, status >= 500)


@contextmanager
def job_span() -> Iterator[None]:
    """A span of a job on a websocket, for as long as the context lasts."""
    tracer = TRACER.get()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span("websocket job") as span:
        try:
            yield
        finally:
            known = _known()
            span.set_attributes(known)
            _judge(span, "scanline.error" in known)


@contextmanager
def traced(work: AbstractContextManager[Job]) -> Iterator[Job]:
    """The job, told when it has ended: the log's context gets its time in the queue, the trace that and what came then.

    What is scored has no slot, and no queue that anybody sees.
    """
    began = time.time_ns()
    with work as job:
        try:
            yield job
        finally:
            if job.queue_seconds is not None:
                bind_contextvars(queued=round(job.queue_seconds, 6))
            if (tracer := TRACER.get()) is not None:
                _trace(tracer, job, began, time.time_ns())


def _trace(tracer: "Tracer", job: Job, began: int, now: int) -> None:
    scored = bool(job.bits)
    seated = now if job.queue_seconds is None else min(now, began + int(job.queue_seconds * NANO))
    if not scored:
        tracer.start_span("queue", start_time=began).end(seated)
    if scored or job.queue_seconds is not None:
        done = {"scanline.images": job.total, "scanline.images_left": job.images_left}
        name, start = ("score", began) if scored else ("paint", seated)
        tracer.start_span(name, start_time=start, attributes=done).end(now)


def _known() -> Mapping[str, Any]:
    """What has been bound to the log's context."""
    return {f"scanline.{name}": value for name, value in get_contextvars().items() if value is not None}


def _judge(span: Any, failed: bool) -> None:
    from opentelemetry.trace import Status, StatusCode

    if failed:
        span.set_status(Status(StatusCode.ERROR))
