"""One of several API processes: its start and end in the main process, and what runs in it, which
is the whole application with the main process's engines.
"""

import asyncio
import atexit
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from math import ceil
from multiprocessing.connection import Connection
from typing import Any

from prometheus_client.metrics_core import Metric

from scanline.model.base.safe_path import safe_path
from scanline.server.api.base.api_keys import ApiKeys
from scanline.server.engine.remote.over_pipe import FindEngine, MainEnd, Statuses
from scanline.server.process import running
from scanline.server.process.listening import Listening
from scanline.server.process.main_process import MainProcess
from scanline.server.process.merged_metrics import counted
from scanline.server.process.tls import TlsCertificate
from scanline.server.runtime import child_process
from scanline.server.runtime.memory import give_back_freed_memory
from scanline.server.runtime.secret_variables import secret_variables, withhold
from scanline.server.runtime.signals import HANDLED, start_with_signals_blocked
from scanline.server.settings import Settings

log = logging.getLogger("scanline.server")

UNEVEN = 1.5  # times its equal part of a client's connections and requests that a process may get
DIVIDED = ("max_websockets", "max_connections", "max_unread_bytes")
Method = Callable[["ApiProcess", Any], Coroutine[Any, Any, Any]]
METRICS_SECONDS = 2.0  # that an API process has to send its metrics


class ApiProcess:
    """A started API process, in the main process."""

    def __init__(
        self,
        settings: Settings,
        listening: Listening,
        keys: ApiKeys | None,
        certificate: TlsCertificate | None,
        statuses: Statuses,
        find_engine: FindEngine,
        methods: Mapping[str, Method],
    ) -> None:
        """`methods` are those that it may call; each gets this object first."""
        self.settings = settings
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(
            target=main,
            args=(
                settings,
                listening,
                keys,
                certificate,
                secret_variables("OTEL_"),
                statuses,
                theirs,
            ),
            name="scanline-api",
            daemon=True,
        )
        with safe_path():
            start_with_signals_blocked(self.process, HANDLED)
        theirs.close()
        # multiprocessing would otherwise wait for a process that drains
        atexit.register(self.process.kill)
        self.requests = MainEnd(
            ours, find_engine, {name: partial(method, self) for name, method in methods.items()}
        )
        self.has_drained = False
        self.may_exit = asyncio.Event()
        self.was_silent = False  # at the last check
        self.last_metrics: list[Metric] = []  # that it has sent
        log.info("an API process has started, process %s", self.process.pid)

    async def ended(self) -> int:
        """Return its exit status once it has exited; its requests are cancelled."""
        await self.requests.closed()
        await asyncio.to_thread(self.process.join)
        await asyncio.to_thread(self.requests.pipe.close)
        atexit.unregister(self.process.kill)
        status = self.process.exitcode
        assert status is not None
        self.process.close()
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not exited."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def check(self) -> None:
        """Kill it where it was silent for too long at two checks in a row: one
        alone may be a stall of this process.
        """
        seconds = (
            self.settings.engine_timeout if self.requests.is_up else self.settings.load_timeout
        )
        is_silent = self.requests.pipe.silence > seconds
        if is_silent and self.was_silent:
            log.error(
                "an API process is silent for %g seconds and is killed, process %s",
                seconds,
                self.process.pid,
            )
            self.signal(signal.SIGKILL)
        self.was_silent = is_silent

    async def metrics(self) -> list[Metric]:
        """Return its metrics; where it does not answer in time, what
        it has counted until it last did.
        """
        try:
            self.last_metrics = await asyncio.wait_for(
                self.requests.call("metrics"), METRICS_SECONDS
            )
        except TimeoutError:
            return counted([self.last_metrics])
        return self.last_metrics


def main(
    settings: Settings,
    listening: Listening,
    keys: ApiKeys | None,
    certificate: TlsCertificate | None,
    of_traces: Mapping[str, str],
    statuses: Statuses,
    connection: Connection,
) -> None:
    """Serve until the main process sends SIGTERM, or ends; with its `keys` and `certificate`, as
    their files may be broken by now, and the secret variables `of_traces`."""
    os.environ.update(of_traces)
    withhold()
    os.setsid()  # what a terminal sends to all its processes is the main process's to handle
    child_process.set_up(connection, settings.log_format, settings.log_level)
    give_back_freed_memory()
    part = part_of(settings)

    async def serve() -> int:
        main_process = MainProcess(connection, part, statuses)
        try:
            return await running.run(
                part, main_process.models, listening, keys, certificate, main_process
            )
        except ValueError:  # no model can be loaded, as the main process says
            return 1
        except Exception:
            log.critical("the API process exits", exc_info=True)
            return 1

    sys.exit(asyncio.run(serve()))


def part_of(settings: Settings) -> Settings:
    """Return the settings of one API process: its equal part of what all of them together may hold.

    At least so much that the largest request of a client is not refused for it. Connections do not
    come evenly: in each process one client may have more than its share, by at most half of what
    that leaves to others. Rates, like that of one client's overhead, are of each process.
    """
    processes = settings.api_processes
    if processes == 1:
        return settings
    parts: dict[str, float] = {name: ceil(getattr(settings, name) / processes) for name in DIVIDED}
    parts["client_share"] = min(UNEVEN * settings.client_share, (1 + settings.client_share) / 2)
    for name, largest in (
        ("max_waiting_images", settings.max_images_per_request),
        ("max_arriving_bytes", settings.max_body_bytes),
    ):
        whole = getattr(settings, name)
        parts[name] = max(
            ceil(whole / processes), min(whole, ceil(largest / settings.client_share))
        )
    if settings.max_frames_per_second is not None:
        parts["max_frames_per_second"] = ceil(settings.max_frames_per_second / processes)
    return settings.model_copy(update=parts)
