"""Runs an application in this process until it is stopped, and returns the process's exit status.

The first SIGTERM or SIGINT drains: new work is refused, accepted work finishes, probes and metrics are answered
meanwhile; then the sockets close. A second signal ends the process at once. uvicorn's own signal handling would close
every websocket at the first. SIGHUP loads the models again, but for one that says that the terminal is gone.
"""

import asyncio
import logging
import os
import signal
import socket
from contextlib import AbstractContextManager, nullcontext

import uvicorn

from scanline.server.api.tracing import tracer_provider
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.app import build
from scanline.server.lifecycle import Lifecycle
from scanline.server.registry import ModelRegistry
from scanline.server.reload import ModelReloader
from scanline.server.settings import Settings

CLOSING_SECONDS = 3  # for clients to receive what has been written to their connections
OTHER_DESCRIPTORS = 256  # besides websockets: other connections, the engines' pipes, files

log = logging.getLogger("scanline.server")


class Server(uvicorn.Server):
    """uvicorn without its signal handlers."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


async def run(settings: Settings, models: ModelRegistry, listening: socket.socket) -> int:
    """Serve until a signal or the last engine's death; return the exit status.

    0: stopped by a signal, and all accepted work was answered. 1: the drain timed out, or no engine is left. Raises
    ValueError if no model can be loaded.
    """
    raise_descriptor_limit(settings.max_websockets)
    lifecycle = Lifecycle()
    app = build(settings, models, lifecycle, tracer_provider(settings.otlp_endpoint))
    options = uvicorn_options(settings, app.state.counters)
    server = Server(uvicorn.Config(app, timeout_graceful_shutdown=CLOSING_SECONDS, **options))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, number, lifecycle)
    loop.add_signal_handler(signal.SIGHUP, _on_hangup, _has_terminal(), lifecycle, app.state.reloader)

    # Serve until one of three things happens: uvicorn ends by itself, a signal comes, or every engine is gone.
    serving = asyncio.create_task(server.serve(sockets=[listening]))
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
    errors = [model.engine.load_error for model in models.all.values()]
    if engines_gone.done() and all(errors):
        raise ValueError("; ".join(map(str, errors)))
    return 0 if was_orderly else 1


def raise_descriptor_limit(websockets: int) -> None:
    """Raise this process's limit of open files to the system's; log a warning if that is too low for the websockets."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    needed = websockets + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_unlimited = hard == resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed) if is_unlimited else hard, hard))
    if not is_unlimited and hard < needed:
        log.warning("the limit of %s open files is too low for %s websockets: raise ulimit -n", hard, websockets)


async def _all_gone(models: ModelRegistry) -> None:
    """Return when every engine is gone for good: the server then exits, so that its supervisor restarts it."""
    while alive := [model.engine for model in models.all.values() if not model.engine.failed.is_set()]:
        await alive[0].failed.wait()  # or it is replaced by a reload


def _on_signal(number: int, lifecycle: Lifecycle) -> None:
    """First signal: drain. Second: restore the default handler and re-raise; engines exit with this process."""
    if lifecycle.draining.is_set():
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    lifecycle.draining.set()


def _on_hangup(had_terminal: bool, lifecycle: Lifecycle, reloader: ModelReloader) -> None:
    """Drain where the terminal that the server was started from is gone, otherwise load the models again."""
    if had_terminal and not _has_terminal():
        _on_signal(signal.SIGHUP, lifecycle)
    else:
        reloader.request_all()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
