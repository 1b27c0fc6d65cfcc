"""The one file that builds the FastAPI application: routes and what lies around them, the error shape."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from server.api import description, errors, health, images, metrics, models, onnx, origins, page, stream
from server.api.access_log import LogRequests
from server.api.body_limit import BodyLimit
from server.api.door import Door
from server.api.faults import CatchFaults
from server.api.http_tally import CountHttp, HttpTally
from server.api.keys import Keys
from server.api.request_id import RequestIds
from server.api.security import SecurityHeaders
from server.api.served import Models
from server.api.traced import Traced
from server.api.websocket_limit import WebsocketLimit
from server.lifecycle import Lifecycle
from server.metrics import registry
from server.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ABOUT = "Linear-transformer image models, painted byte by byte: thousands at once, constant memory each."


def build(
    settings: Settings, served: Models, lifecycle: Lifecycle | None = None, traces: "TracerProvider | None" = None
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
    http = app.state.tally = HttpTally()
    app.add_middleware(CatchFaults)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(CountHttp, tally=http)
    app.add_middleware(LogRequests)
    if traces is not None:
        app.add_middleware(Traced, tracer=traces.get_tracer("scanline"))
    app.add_middleware(RequestIds)  # the outermost: whatever others answer has an id
    errors.install(app)
    description.install(app, wants_key=bool(settings.api_keys))
    for part in (images, onnx, models):  # onnx before models, whose last path takes all
        app.include_router(part.router(served))
    app.include_router(stream.router(served, settings, lifecycle, http))
    app.include_router(health.router(served, lifecycle))
    app.include_router(metrics.router(registry(served, http)))
    page.install(app)
    return app
