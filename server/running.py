"""From an application to a process that serves it until it is stopped, and how that process ends.

The first SIGTERM or SIGINT drains: nobody new is let in, what was accepted finishes, probes and metrics are answered
meanwhile; then the sockets close. A second one ends the process at once. uvicorn's own handling of signals would close
every websocket at the first.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import uvicorn

from scanline.server import descriptors
from scanline.server.api import trace_exporter
from scanline.server.api.transport import uvicorn_options
from scanline.server.app import build
from scanline.server.engine.client.handle import EngineHandle
from scanline.server.lifecycle import Lifecycle
from scanline.server.registry import ModelRegistry
from scanline.server.settings import Settings

CLOSING_SECONDS = 3  # for connections to take what has been written to them

log = logging.getLogger("scanline.server")


class Server(uvicorn.Server):
    """uvicorn's, with signals left to us."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


async def run(settings: Settings, models: ModelRegistry, listening: socket.socket) -> int:
    """Serves until a signal or the last engine's death; the exit status.

    0: stopped by a signal, and all that was accepted was answered. 1: some of it had to be told that its time was up,
    or no engine is left. ValueError where no model can be loaded.
    """
    descriptors.raise_limit(settings.max_websockets)
    lifecycle = Lifecycle()
    engines = [model.engine for model in models.all.values()]
    app = build(settings, models, lifecycle, trace_exporter.provider(settings.otlp_endpoint))
    options = uvicorn_options.options(settings, app.state.counters)
    server = Server(uvicorn.Config(app, timeout_graceful_shutdown=CLOSING_SECONDS, **options))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _signalled, number, lifecycle)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopped, dead = asyncio.create_task(lifecycle.draining.wait()), asyncio.create_task(_all_gone(engines))
    await asyncio.wait({serving, stopped, dead}, return_when=asyncio.FIRST_COMPLETED)
    log.info("draining: %s requests, websockets and jobs are inside", len(lifecycle.inside))
    all_answered = await lifecycle.drain(CLOSING_SECONDS if dead.done() else settings.drain_seconds)
    if all_answered:
        log.info("drained: nobody is inside")
    else:
        log.warning("drained, but for some who were inside the time was up")
    in_peace = stopped.done() and all_answered and not dead.done()
    server.should_exit = True
    await serving
    if dead.done() and all(engine.load_error for engine in engines):
        raise ValueError("; ".join(str(engine.load_error) for engine in engines))
    return 0 if in_peace else 1


async def _all_gone(engines: Iterable[EngineHandle]) -> None:
    """A server that has no engine left answers nobody: it leaves, and whoever supervises it starts a new one."""
    for engine in engines:
        await engine.failed.wait()


def _signalled(number: int, lifecycle: Lifecycle) -> None:
    """The first signal drains; the second is what the system makes of it, and engines leave with their parent."""
    if lifecycle.draining.is_set():
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    lifecycle.draining.set()
