"""A process that serves HTTP, from its sockets to its exit status.

A signal begins a drain (signals.py): new work is refused, accepted work finishes, probes and
metrics are answered meanwhile; then the sockets close. uvicorn's own signal handling would close
every websocket at the first signal. SIGHUP loads the models, the keys and the certificate again.
"""

import asyncio
import logging
import socket
from contextlib import AbstractContextManager, nullcontext
from math import inf
from time import monotonic
from typing import Any

import uvicorn

from scanline.server.api.base.api_keys import ApiKeys
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.base.tracing import tracer_provider
from scanline.server.api.middleware.hosts import served_hosts
from scanline.server.api.payload.uploads import max_message_bytes
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.models.registry import ModelRegistry
from scanline.server.process.app import build
from scanline.server.process.listening import Listening, ignore_attempts
from scanline.server.process.main_process import MainProcess
from scanline.server.process.tls import TlsCertificate
from scanline.server.runtime.lifecycle import Lifecycle
from scanline.server.runtime.memory import collect_rarely
from scanline.server.runtime.signals import handle_signals
from scanline.server.settings import Settings

CLOSING_SECONDS = 3  # for clients to receive what has been written to their connections
LOOP_ERROR_SECONDS = 10.0
LAST_ACCEPTED_SECONDS = 0.2  # for handshakes that have begun, and first requests on new connections
QUEUED_CONNECTIONS = 2048  # that the system keeps until they are accepted
OTHER_DESCRIPTORS = 256  # besides connections: the engines' pipes, files

log = logging.getLogger("scanline.server")


class Server(uvicorn.Server):
    """uvicorn without its signal handlers; what it starts with is
    left out of garbage collections.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            # uvicorn's backlog is also how many asyncio accepts in one turn
            listening.listen(QUEUED_CONNECTIONS)
        collect_rarely()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connections, answer on those that were accepted
        last, then close: no client is reset.
        """
        for listening in sockets or ():
            ignore_attempts(listening)
        await asyncio.sleep(LAST_ACCEPTED_SECONDS)
        await super().shutdown(sockets)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


async def run(
    settings: Settings,
    models: ModelRegistry,
    listening: Listening,
    keys: ApiKeys | None = None,
    certificate: TlsCertificate | None = None,
    main: MainProcess | None = None,
) -> int:
    """Serve until a signal or the last engine's death; return the exit status. `main`:
    where the engines are another process's.

    0: stopped by a signal, and all accepted work was answered. 1: the drain timed out, or no engine
    is left. Raises ValueError if no model can be loaded.
    """
    # Build the application and uvicorn's server around it.
    settings = within_descriptors(settings)
    log_loop_errors_rarely()
    lifecycle = Lifecycle()
    hosts = served_hosts(settings.host, settings.allow_hosts, listening.is_local, keys is not None)
    budgets = Budgets(settings)
    app = build(
        settings,
        models,
        lifecycle,
        tracer_provider(settings.otlp_endpoint),
        keys,
        hosts,
        budgets,
        main,
    )
    context = None if certificate is None else certificate.context

    def message_bytes() -> int:
        return min(settings.max_body_bytes, max_message_bytes(models))

    options = uvicorn_options(settings, app.state.counters, budgets, message_bytes, context)
    server = Server(uvicorn.Config(app, timeout_graceful_shutdown=CLOSING_SECONDS, **options))
    renewing = [] if certificate is None else [asyncio.create_task(certificate.watch.run())]

    def reload() -> None:
        app.state.reloader.request_all()
        if keys is not None and keys.watch is not None:
            keys.watch.reload_or_log()
        if certificate is not None:
            certificate.watch.reload_or_log()

    handle_signals(lifecycle, reload)

    # Serve until one of three things happens: uvicorn ends by itself, a
    # signal comes, or every engine has failed.
    serving = asyncio.create_task(server.serve(sockets=listening.sockets))
    signalled = asyncio.create_task(lifecycle.draining.wait())
    engines_failed = asyncio.create_task(models.all_failed())
    await asyncio.wait({serving, signalled, engines_failed}, return_when=asyncio.FIRST_COMPLETED)

    # Drain: refuse new work, finish what was accepted. Of several API processes
    # none exits before all have drained.
    log.info("draining: %s requests, websockets and jobs in progress", len(lifecycle.unfinished))
    unfinished = await lifecycle.drain(
        CLOSING_SECONDS if engines_failed.done() else settings.drain_seconds
    )
    if unfinished:
        log.warning("drain timed out with %s unfinished", unfinished)
    else:
        log.info("drained")
    if main is not None:
        await main.wait_until_all_drained()
    was_orderly = signalled.done() and not unfinished and not engines_failed.done()

    # Close the sockets; clients get what was written to them.
    server.should_exit = True
    await serving
    for task in renewing:
        task.cancel()
    if engines_failed.done():
        models.raise_load_errors()
    return 0 if was_orderly else 1


def within_descriptors(settings: Settings) -> Settings:
    """Raise this process's limit of open files to the system's; return the settings with as many
    connections as that has room for, and log a warning where these are fewer."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return settings
    connections = max(settings.max_connections, settings.max_websockets)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_unlimited = hard == resource.RLIM_INFINITY
    limit = max(soft, connections + OTHER_DESCRIPTORS) if is_unlimited else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    room = limit - min(OTHER_DESCRIPTORS, limit // 2)
    if room >= connections:
        return settings
    log.warning(
        "a limit of %s files has room for %s connections, not %s: raise ulimit -n",
        limit,
        room,
        connections,
    )
    fewer = {
        name: min(getattr(settings, name), room) for name in ("max_connections", "max_websockets")
    }
    return settings.model_copy(update=fewer)


def log_loop_errors_rarely() -> None:
    """Log each kind of error that the running event loop reports at most once in
    LOOP_ERROR_SECONDS: without descriptors it would report thousands in a second."""
    logged: dict[str, float] = {}

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        now = monotonic()
        if now - logged.get(context["message"], -inf) >= LOOP_ERROR_SECONDS:
            logged[context["message"]] = now
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)
