"""Runs an application in this process until it is stopped, and returns the process's exit status.

The first SIGTERM or SIGINT drains: new work is refused, accepted work finishes, probes and metrics are answered
meanwhile; then the sockets close. A second signal ends the process at once, whatever it does and also as process 1 of
a container. uvicorn's own signal handling would close every websocket at the first. SIGHUP loads the models, the keys
and the certificate again, but for one that says that the terminal is gone.
"""

import asyncio
import logging
import os
import signal
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, NoReturn

import uvicorn

from scanline.server.api.api_keys import ApiKeys
from scanline.server.api.middleware.hosts import served_hosts
from scanline.server.api.tracing import tracer_provider
from scanline.server.api.transport.budgets import Budgets
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.api.uploads import max_message_bytes
from scanline.server.app import build
from scanline.server.lifecycle import Lifecycle
from scanline.server.listening import Listening
from scanline.server.registry import ModelRegistry
from scanline.server.settings import Settings
from scanline.server.tls import TlsCertificate

CLOSING_SECONDS = 3  # for clients to receive what has been written to their connections
OTHER_DESCRIPTORS = 256  # besides connections: the engines' pipes, files
STOPPING = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("scanline.server")


class Server(uvicorn.Server):
    """uvicorn without its signal handlers."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


async def run(
    settings: Settings,
    models: ModelRegistry,
    listening: Listening,
    keys: ApiKeys | None = None,
    certificate: TlsCertificate | None = None,
) -> int:
    """Serve until a signal or the last engine's death; return the exit status.

    0: stopped by a signal, and all accepted work was answered. 1: the drain timed out, or no engine is left. Raises
    ValueError if no model can be loaded.
    """
    raise_descriptor_limit(max(settings.max_connections, settings.max_websockets))
    lifecycle = Lifecycle()
    hosts = served_hosts(settings.host, settings.allow_hosts, listening.is_local, keys is not None)
    budgets, message_bytes = Budgets(settings), min(settings.max_body_bytes, max_message_bytes(models))
    app = build(settings, models, lifecycle, tracer_provider(settings.otlp_endpoint), keys, hosts, budgets)
    options = uvicorn_options(settings, app.state.counters, budgets, message_bytes) | _tls_options(certificate)
    server = Server(uvicorn.Config(app, timeout_graceful_shutdown=CLOSING_SECONDS, **options))
    renewing = [] if certificate is None else [asyncio.create_task(certificate.watch.run())]
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, _on_signal, lifecycle)
    had_terminal = _has_terminal()

    def on_hangup() -> None:
        """Drain where the terminal that the server was started from is gone, otherwise load everything again."""
        if had_terminal and not _has_terminal():
            _on_signal(lifecycle)
            return
        app.state.reloader.request_all()
        if keys is not None and keys.watch is not None:
            keys.watch.reload_or_log()
        if certificate is not None:
            certificate.watch.reload_or_log()

    loop.add_signal_handler(signal.SIGHUP, on_hangup)

    # Serve until one of three things happens: uvicorn ends by itself, a signal comes, or every engine is gone.
    serving = asyncio.create_task(server.serve(sockets=listening.sockets))
    signalled = asyncio.create_task(lifecycle.draining.wait())
    engines_gone = asyncio.create_task(_all_gone(models))
    await asyncio.wait({serving, signalled, engines_gone}, return_when=asyncio.FIRST_COMPLETED)

    log.info("draining: %s requests, websockets and jobs in progress", len(lifecycle.unfinished))
    unfinished = await lifecycle.drain(CLOSING_SECONDS if engines_gone.done() else settings.drain_seconds)
    if unfinished:
        log.warning("drain timed out with %s unfinished", unfinished)
    else:
        log.info("drained")
    was_orderly = signalled.done() and not unfinished and not engines_gone.done()

    server.should_exit = True
    await serving
    for task in renewing:
        task.cancel()
    errors = [model.engine.load_error for model in models.all.values()]
    if engines_gone.done() and all(errors):
        raise ValueError("; ".join(map(str, errors)))
    return 0 if was_orderly else 1


def raise_descriptor_limit(connections: int) -> None:
    """Raise this process's limit of open files to the system's; log a warning if that is too low."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    needed = connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_unlimited = hard == resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed) if is_unlimited else hard, hard))
    if not is_unlimited and hard < needed:
        log.warning("the limit of %s open files is too low for %s connections: raise ulimit -n", hard, connections)


async def _all_gone(models: ModelRegistry) -> None:
    """Return when every engine is gone for good: the server then exits, so that its supervisor restarts it."""
    while alive := [model.engine for model in models.all.values() if not model.engine.failed.is_set()]:
        await alive[0].failed.wait()  # or it is replaced by a reload


def _tls_options(certificate: TlsCertificate | None) -> dict[str, Any]:
    """Return uvicorn's options for a certificate: the context, which its owner renews."""
    return {} if certificate is None else {"ssl_context_factory": lambda *_: certificate.context}


def _on_signal(lifecycle: Lifecycle) -> None:
    """First signal: drain. From then on each one ends the process at once; engines exit with it."""
    lifecycle.draining.set()
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.remove_signal_handler(number)
        signal.signal(number, _exit_at_once)  # does not wait for the event loop, which may be what hangs


def _exit_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End this process. Its default handler would not do that for process 1, whose default handlers are ignored."""
    os._exit(128 + number)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
