"""The fork server of engines: a process that has imported torch
once, of which each engine is a fork.

The imports take two seconds. The second model of a server, an engine after a crash
and a reloaded model do without them. The fork server runs nothing, has no model and
no device, and exits with the server.
"""

import multiprocessing
import os
import shutil
import signal
import tempfile
from multiprocessing import current_process, forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from scanline.model.base.safe_path import safe_path
from scanline.server.runtime.signals import HANDLED

CONTEXT: ForkServerContext = multiprocessing.get_context("forkserver")
PRELOADED = ["scanline.server.engine.worker.preloaded"]
FOLDER = "tempdir"  # where multiprocessing looks for its own
MAX_FOLDER = 70  # bytes of the path of the folder for its socket, whose own path may have 107


def warm_up() -> None:
    """Start the fork server where there is none, without waiting for its imports.

    It and every engine block the signals that a server handles, since a terminal
    sends them to all processes of a group.
    """
    CONTEXT.set_forkserver_preload(PRELOADED)
    _forget_unreachable()
    _make_folder()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        with safe_path():
            # first, because it unblocks SIGINT and SIGTERM, which it ignores
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forget_unreachable() -> None:
    """Have another fork server started where the socket of this one is gone, as after a cleaning of
    temporary files. This one and its engines stay as long as the server: its pipe is left open."""
    running: Any = forkserver._forkserver
    address = running._forkserver_address
    if address is not None and not os.path.exists(address):
        running._forkserver_address = running._forkserver_alive_fd = running._forkserver_pid = None
        current_process()._config.pop(FOLDER, None)  # type: ignore[attr-defined]


def _make_folder() -> None:
    """Make the folder of the fork server's socket, which multiprocessing would make in one whose
    path may be too long, and fail to remove where something else has removed it."""
    folders: dict[str, Any] = current_process()._config  # type: ignore[attr-defined]
    if folders.get(FOLDER) is None:
        parent = tempfile.gettempdir()
        if len(os.fsencode(parent)) > MAX_FOLDER and os.access("/tmp", os.W_OK):
            parent = "/tmp"
        folders[FOLDER] = tempfile.mkdtemp(prefix="pymp-", dir=parent)
        util.Finalize(None, shutil.rmtree, args=(folders[FOLDER], True), exitpriority=-100)


def start(process: ForkServerProcess) -> None:
    """Start a process as a fork, once the imports have ended; OSError where that fails."""
    warm_up()
    try:
        process.start()
    except EOFError:
        raise OSError("the fork server died") from None


def let_it_exit() -> None:
    """In an engine: close its copy of the pipe by whose end the fork server
    notices that the server has exited.

    The fork server exits then, and Linux kills its engines with it: also one that is stopped, which
    would otherwise keep the fork server, and so itself, alive.
    """
    os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]
