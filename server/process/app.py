"""The FastAPI application: its middleware, its routes, and the engines' start and end."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI
from prometheus_client.registry import Collector
from starlette.middleware import Middleware

from scanline.model.base.extras import version
from scanline.server.api import openapi
from scanline.server.api.base import errors, tracing
from scanline.server.api.base.api_keys import ApiKeys, api_keys
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.middleware import origins
from scanline.server.api.middleware.auth import ApiKeyMiddleware
from scanline.server.api.middleware.client import ClientMiddleware
from scanline.server.api.middleware.compression import CompressionMiddleware
from scanline.server.api.middleware.draining import DrainingMiddleware
from scanline.server.api.middleware.exceptions import ExceptionMiddleware
from scanline.server.api.middleware.head import HeadMiddleware
from scanline.server.api.middleware.hosts import HostMiddleware, served_hosts
from scanline.server.api.middleware.limits import BodyLimitMiddleware, WebsocketLimitMiddleware
from scanline.server.api.middleware.observe import PROBES, HttpCounters, ObservingMiddleware
from scanline.server.api.middleware.overhead import OverheadMiddleware
from scanline.server.api.middleware.request_id import RequestIdMiddleware
from scanline.server.api.middleware.security_headers import SecurityHeadersMiddleware
from scanline.server.api.routes import (
    codes,
    health,
    images,
    likelihoods,
    metrics,
    models,
    page,
    preview,
    steps,
    websocket,
    weights,
)
from scanline.server.models.registry import ModelRegistry
from scanline.server.models.reload import ModelReloader, Reloader
from scanline.server.process.main_process import MainProcess
from scanline.server.process.merged_metrics import MergedMetrics
from scanline.server.runtime.lifecycle import Lifecycle
from scanline.server.runtime.loop_lag import LoopLag
from scanline.server.runtime.memory import give_back_free_pages
from scanline.server.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

DESCRIPTION = (
    "Linear-transformer image models, painted pixel by pixel: thousands at once, constant memory each. The websocket"
    " /v1/images/stream streams pixels; docs/api.md in the repository describes its messages."
)


def build(
    settings: Settings,
    served: ModelRegistry,
    lifecycle: Lifecycle | None = None,
    traces: "TracerProvider | None" = None,
    keys: ApiKeys | None = None,
    hosts: Collection[str] | None = None,
    budgets: Budgets | None = None,
    main: MainProcess | None = None,
) -> FastAPI:
    """Return the application; its startup starts the engines, its shutdown
    ends them. `traces` exports its spans.

    Without `keys` those of the settings are read. `hosts` are the host names to serve; without
    them, those of the settings, or all: only the listening process knows that it can be reached
    from this machine alone. `budgets` are those of the connections, for the metrics. `main`: where
    another process has the engines, which also reloads them and collects the metrics of all.
    """
    lifecycle = lifecycle or Lifecycle()
    keys = keys or api_keys(settings)
    hosts = hosts or served_hosts(
        settings.host, settings.allow_hosts, is_local=False, needs_key=keys is not None
    )
    counters = HttpCounters()
    lag = LoopLag()
    # One API process of several has its engines, their reloads and the
    # metrics of the others in the main process.
    reloader: Reloader = main or ModelReloader(served)
    measured = metrics.process_metrics(served, counters, lag, keys, budgets)

    async def gathered_metrics() -> Collector:
        return measured if main is None else MergedMetrics(await main.collected_metrics())

    if main is not None:
        main.metrics = measured
    app = FastAPI(
        title="Scanline",
        version=version(),
        description=DESCRIPTION,
        lifespan=partial(_lifespan, served, reloader, lag, keys, traces),
        docs_url=None,  # page.py serves it, and the document
        openapi_url=None,
        redoc_url=None,
        # Relative to the description's own address, which a proxy may have below a path.
        servers=[{"url": ".", "description": "the server that this describes"}],
        generate_unique_id_function=openapi.operation_id,
        redirect_slashes=False,  # redirects would go to the Host that the client names
        middleware=_middleware(
            settings, lifecycle, counters, traces, keys, hosts, budgets or Budgets(settings)
        ),
    )
    # Shared by the middleware above, the routes below and signal handlers.
    app.state.counters = counters
    app.state.api_keys = keys
    app.state.reloader = reloader
    errors.install(app)
    openapi.install(app, keys is not None, served.max_images)
    routers = [
        images.router(served),
        likelihoods.router(served),
        codes.router(served),
        steps.router(served),
        weights.router(served),  # before models, whose path parameter would match /weights as well
        models.router(served, reloader, has_keys=keys is not None),
        websocket.router(served, settings, lifecycle, counters),
        health.router(served, lifecycle, keys is not None, None if main is None else main.silence),
        metrics.router(gathered_metrics),
    ]
    for router in routers:
        app.include_router(router)
    if keys is None:
        routers.append(preview.router(served))
        app.include_router(routers[-1])
    app.state.paths = {
        getattr(route, "path", None) for router in routers for route in router.routes
    }
    page.install(app, settings.frame_ancestors, has_preview=keys is None)
    return app


@asynccontextmanager
async def _lifespan(
    served: ModelRegistry,
    reloader: Reloader,
    lag: LoopLag,
    keys: ApiKeys | None,
    traces: "TracerProvider | None",
    app: FastAPI,
) -> AsyncIterator[None]:
    """Start the engines and what watches files and memory; stop them when the application ends."""
    for model in served.all.values():
        model.engine.start()
    await asyncio.gather(*(model.engine.settled() for model in served.all.values()))
    app.state.make_openapi()  # kept: it takes longer than any request may hold the event loop
    watching = [asyncio.create_task(give_back_free_pages())]
    if keys is not None and keys.watch is not None:
        watching.append(asyncio.create_task(keys.watch.run()))
    lag.start()
    yield
    lag.stop()
    for task in watching:
        task.cancel()
    # Reloads first: they have engines of their own, which `served` does not name.
    await reloader.close()
    await asyncio.gather(*(model.engine.close() for model in served.all.values()))
    if traces is not None:
        await asyncio.to_thread(traces.shutdown)


def _middleware(
    settings: Settings,
    lifecycle: Lifecycle,
    counters: HttpCounters,
    traces: "TracerProvider | None",
    keys: ApiKeys | None,
    hosts: Collection[str] | None,
    budgets: Budgets,
) -> list[Middleware]:
    return [
        # Outermost, so that every response and every log line has a request id.
        Middleware(RequestIdMiddleware),
        # Its address is in the log line of every request and in what is counted for it.
        Middleware(ClientMiddleware, trusted_proxies=settings.trusted_proxies),
        # Outside of the log, whose fields are in its spans.
        *([] if traces is None else [tracing.middleware(traces, PROBES)]),
        # Logs and counts whatever the ones below answer, refusals included.
        Middleware(ObservingMiddleware, counters=counters),
        # Before anything is done for a client that has been too busy without any model's work.
        Middleware(OverheadMiddleware, budgets=budgets, lifecycle=lifecycle),
        # Adds headers to every response, also to those of the exceptions below.
        Middleware(SecurityHeadersMiddleware),
        # Turns exceptions of everything below into error responses.
        Middleware(ExceptionMiddleware),
        # Before the origins, which are compared with the Host header.
        *([] if hosts is None else [Middleware(HostMiddleware, names=hosts)]),
        # Outside of the API keys: a browser sends no key with a CORS preflight request.
        *origins.middleware(settings.allow_origins),
        # Before the body is read: a client without a key can upload nothing.
        *([] if keys is None else [Middleware(ApiKeyMiddleware, keys=keys)]),
        # Outside of draining, which reads and discards the bodies that it refuses.
        Middleware(
            BodyLimitMiddleware, max_bytes=settings.max_body_bytes, seconds=settings.receive_timeout
        ),
        # Refuses new work while the server drains, and tracks accepted work until it is done.
        Middleware(DrainingMiddleware, lifecycle=lifecycle),
        # Last of the limits: only websockets that nothing else has refused count as open.
        Middleware(
            WebsocketLimitMiddleware,
            max_open=settings.max_websockets,
            counters=counters,
            client_share=settings.client_share,
        ),
        # Below whatever looks at the method: all but the routes see HEAD.
        Middleware(HeadMiddleware),
        # Below HEAD, so that its length is that of the compressed answer.
        Middleware(CompressionMiddleware),
    ]
