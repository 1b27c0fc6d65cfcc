"""Signals of a server. The first SIGTERM or SIGINT drains, a second one ends the process at once,
whatever it does and also as process 1 of a container. SIGHUP reloads everything, unless the
terminal was closed: then it drains. A server's other processes are started with these signals
blocked: those of a terminal go to all its processes, and are the main one's to handle.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import NoReturn

from scanline.server.runtime.lifecycle import Lifecycle

STOPPING = (signal.SIGTERM, signal.SIGINT)
HANDLED = (*STOPPING, signal.SIGHUP)


def handle_signals(lifecycle: Lifecycle, reload: Callable[[], None]) -> None:
    """Drain `lifecycle` and call `reload` on signals from now on, in the running event loop; on
    those, too, that came while they were blocked."""
    loop = asyncio.get_running_loop()
    had_terminal = _has_terminal()

    def on_hangup() -> None:
        if had_terminal and not _has_terminal():
            _drain(lifecycle)
        else:
            reload()

    for number in STOPPING:
        loop.add_signal_handler(number, _drain, lifecycle)
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def start_with_signals_blocked(process: BaseProcess, signals: Iterable[signal.Signals]) -> None:
    """Start a process that gets these signals once it unblocks them, if ever."""
    resource_tracker.ensure_running()  # now, because starting it later would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _drain(lifecycle: Lifecycle) -> None:
    """Drain; from then on each signal ends the process at once, and engines exit with it."""
    lifecycle.draining.set()
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.remove_signal_handler(number)
        # does not wait for the event loop, which may be what hangs
        signal.signal(number, _exit_at_once)


def _exit_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End this process. Its default handler would not do that for process 1,
    whose default handlers are ignored.
    """
    os._exit(128 + number)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
