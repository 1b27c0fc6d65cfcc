"""The one file that builds the FastAPI application: routes and what lies around them, the error shape."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from scanline.server.api import errors, openapi
from scanline.server.api.metrics import registry
from scanline.server.api.middleware import origins
from scanline.server.api.middleware.access_log import LogRequests
from scanline.server.api.middleware.auth import Keys
from scanline.server.api.middleware.body_limit import BodyLimit
from scanline.server.api.middleware.draining import Door
from scanline.server.api.middleware.exceptions import CatchFaults
from scanline.server.api.middleware.http_metrics import CountHttp, HttpCounters
from scanline.server.api.middleware.request_id import RequestIds
from scanline.server.api.middleware.security_headers import SecurityHeaders
from scanline.server.api.middleware.websocket_limit import WebsocketLimit
from scanline.server.api.routes import health, images, metrics, models, onnx, page, websocket
from scanline.server.api.tracing import Traced
from scanline.server.lifecycle import Lifecycle
from scanline.server.registry import ModelRegistry
from scanline.server.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ABOUT = "Linear-transformer image models, painted byte by byte: thousands at once, constant memory each."


def build(
    settings: Settings,
    served: ModelRegistry,
    lifecycle: Lifecycle | None = None,
    traces: "TracerProvider | None" = None,
) -> FastAPI:
    """The application; its engines live from its start-up to its shutdown, spans of its requests go into `traces`."""
    lifecycle = lifecycle or Lifecycle()
    engines = [model.engine for model in served.all.values()]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for engine in engines:
            engine.start()
        await asyncio.gather(*(engine.settled() for engine in engines))
        yield
        await asyncio.gather(*(engine.close() for engine in engines))
        if traces is not None:
            await asyncio.to_thread(traces.shutdown)

    app = FastAPI(title="Scanline", version=version("scanline"), lifespan=lifespan, description=ABOUT)
    # the innermost first: each one added lies around the others
    app.add_middleware(WebsocketLimit, most=settings.max_websockets)
    app.add_middleware(Door, lifecycle=lifecycle)
    app.add_middleware(BodyLimit, most=settings.max_body_bytes, seconds=settings.receive_timeout)
    if settings.api_keys:
        app.add_middleware(Keys, keys=settings.api_keys)
    origins.install(app, settings.allow_origins)  # around the keys: a preflight has none
    http = app.state.counters = HttpCounters()
    app.add_middleware(CatchFaults)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(CountHttp, counters=http)
    app.add_middleware(LogRequests)
    if traces is not None:
        app.add_middleware(Traced, tracer=traces.get_tracer("scanline"))
    app.add_middleware(RequestIds)  # the outermost: whatever others answer has an id
    errors.install(app)
    openapi.install(app, wants_key=bool(settings.api_keys))
    for part in (images, onnx, models):  # onnx before models, whose last path takes all
        app.include_router(part.router(served))
    app.include_router(websocket.router(served, settings, lifecycle, http))
    app.include_router(health.router(served, lifecycle))
    app.include_router(metrics.router(registry(served, http)))
    page.install(app)
    return app
