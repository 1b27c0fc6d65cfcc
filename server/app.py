"""Builds the FastAPI application: its middleware, its routes, and the engines' start and end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware import Middleware

from scanline.server.api import errors, openapi
from scanline.server.api.middleware import origins
from scanline.server.api.middleware.auth import ApiKeyMiddleware
from scanline.server.api.middleware.draining import DrainingMiddleware
from scanline.server.api.middleware.exceptions import ExceptionMiddleware
from scanline.server.api.middleware.limits import BodyLimitMiddleware, WebsocketLimitMiddleware
from scanline.server.api.middleware.observe import HttpCounters, ObservingMiddleware
from scanline.server.api.middleware.request_id import RequestIdMiddleware
from scanline.server.api.middleware.security_headers import SecurityHeadersMiddleware
from scanline.server.api.routes import health, images, metrics, models, onnx, page, websocket
from scanline.server.lifecycle import Lifecycle
from scanline.server.registry import ModelRegistry
from scanline.server.reload import ModelReloader
from scanline.server.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

DESCRIPTION = "Linear-transformer image models, painted pixel by pixel: thousands at once, constant memory each."


def build(
    settings: Settings,
    served: ModelRegistry,
    lifecycle: Lifecycle | None = None,
    traces: "TracerProvider | None" = None,
) -> FastAPI:
    """Return the application; its startup starts the engines, its shutdown ends them. `traces` exports its spans."""
    lifecycle = lifecycle or Lifecycle()
    counters = HttpCounters()
    reloader = ModelReloader(served)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for model in served.all.values():
            model.engine.start()
        await asyncio.gather(*(model.engine.settled() for model in served.all.values()))
        yield
        await reloader.close()
        await asyncio.gather(*(model.engine.close() for model in served.all.values()))
        if traces is not None:
            await asyncio.to_thread(traces.shutdown)

    app = FastAPI(
        title="Scanline",
        version=version("scanline"),
        description=DESCRIPTION,
        lifespan=lifespan,
        middleware=_middleware(settings, lifecycle, counters, traces),
    )
    app.state.counters, app.state.reloader = counters, reloader
    errors.install(app)
    openapi.install(app, needs_key=bool(settings.api_keys))
    app.include_router(images.router(served))
    app.include_router(onnx.router(served))  # before models, whose path parameter would match /onnx as well
    has_keys = bool(settings.api_keys or settings.api_keys_file)
    app.include_router(models.router(served, reloader, has_keys))
    app.include_router(websocket.router(served, settings, lifecycle, counters))
    app.include_router(health.router(served, lifecycle))
    app.include_router(metrics.router(served, counters))
    page.install(app)
    return app


def _middleware(
    settings: Settings, lifecycle: Lifecycle, counters: HttpCounters, traces: "TracerProvider | None"
) -> list[Middleware]:
    """Return all middleware, the outermost first."""
    tracer = None if traces is None else traces.get_tracer("scanline")
    keys = [Middleware(ApiKeyMiddleware, keys=settings.api_keys)] if settings.api_keys else []
    return [
        # Outermost, so that every response and every log line has a request id.
        Middleware(RequestIdMiddleware),
        # Logs, counts and traces whatever the ones below answer, refusals included.
        Middleware(ObservingMiddleware, counters=counters, tracer=tracer),
        # Adds headers to every response, also to those of the exceptions below.
        Middleware(SecurityHeadersMiddleware),
        # Turns exceptions of everything below into error responses.
        Middleware(ExceptionMiddleware),
        # Outside of the API keys: a browser sends no key with a CORS preflight request.
        *origins.middleware(settings.allow_origins),
        # Before the body is read: a client without a key can upload nothing.
        *keys,
        # Outside of draining, which reads and discards the bodies that it refuses.
        Middleware(BodyLimitMiddleware, max_bytes=settings.max_body_bytes, seconds=settings.receive_timeout),
        # Refuses new work while the server drains, and tracks accepted work until it is done.
        Middleware(DrainingMiddleware, lifecycle=lifecycle),
        # Innermost: only websockets that nothing else has refused count as open.
        Middleware(WebsocketLimitMiddleware, max_open=settings.max_websockets, counters=counters),
    ]
