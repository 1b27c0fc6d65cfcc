"""One of several API processes: the whole application, with engines that the main process has."""

import asyncio
import logging
import os
import sys
from math import ceil
from multiprocessing.connection import Connection

from scanline.server.api.api_keys import api_keys
from scanline.server.engine.remote.main_process import MainProcess
from scanline.server.engine.remote.messages import Statuses
from scanline.server.engine.worker.watchdog import exit_with_parent
from scanline.server.process import logs, running
from scanline.server.process.listening import Listening
from scanline.server.process.memory import give_back_freed_memory
from scanline.server.process.process_name import show_process_name
from scanline.server.process.tls import tls_certificate
from scanline.server.settings import Settings

log = logging.getLogger("scanline.server")

DIVIDED = ("max_websockets", "max_connections", "max_unread_bytes")


def main(settings: Settings, listening: Listening, statuses: Statuses, connection: Connection) -> None:
    """Serve until the main process sends SIGTERM, or is gone."""
    os.setsid()  # what a terminal sends to all its processes is the main process's to handle
    logs.configure(settings.log_format, settings.log_level)
    exit_with_parent(connection)
    show_process_name()
    give_back_freed_memory()
    sys.exit(asyncio.run(_run(part_of(settings), listening, statuses, connection)))


def part_of(settings: Settings) -> Settings:
    """Return the settings of one API process: its equal part of what all of them together may hold.

    At least so much that the largest request of a client is not refused for it. Rates, like that of one client's
    overhead, are of each process.
    """
    processes = settings.api_processes
    parts = {name: ceil(getattr(settings, name) / processes) for name in DIVIDED}
    for name, largest in (
        ("max_waiting_images", settings.max_images_per_request),
        ("max_arriving_bytes", settings.max_body_bytes),
    ):
        whole = getattr(settings, name)
        parts[name] = max(ceil(whole / processes), min(whole, ceil(largest / settings.client_share)))
    if settings.max_frames_per_second is not None:
        parts["max_frames_per_second"] = ceil(settings.max_frames_per_second / processes)
    return settings.model_copy(update=parts)


async def _run(settings: Settings, listening: Listening, statuses: Statuses, connection: Connection) -> int:
    try:
        keys, certificate = api_keys(settings), tls_certificate(settings)
    except ValueError as error:  # files that were changed since the server started
        log.critical("%s", error)
        return 1
    main = MainProcess(connection, settings, statuses)
    try:
        return await running.run(settings, main.models, listening, keys, certificate, main)
    except ValueError:  # no model can be loaded, as the main process says
        return 1
