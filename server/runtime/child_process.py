"""Set-up of a server's child processes: their logs, their names, and their end with the parent.

A child never outlives the server, whatever it is doing when the server dies: loading, painting,
hanging. So no process is left, and no GPU memory.
"""

import ctypes
import logging
import multiprocessing
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection

from scanline.server.runtime import logs, stderr

log = logging.getLogger("scanline.server")

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def set_up(connection: Connection, log_format: str, log_level: str) -> None:
    """Configure the logs of this process; exit as soon as the other end of `connection` is closed.

    On Linux the kernel ends it too (PR_SET_PDEATHSIG), which also reaches a process that is stopped
    or whose interpreter hangs. That signal follows the thread that started the process, which must
    live as long as the server. `ps` and `top` show the process by the name that multiprocessing
    gave it, of which Linux keeps 15 bytes.
    """
    stderr.install()
    logs.configure(log_format, log_level)
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_NAME, multiprocessing.current_process().name.encode())
    threading.Thread(
        target=_exit_with_parent, args=(connection.fileno(),), name="watch-parent", daemon=True
    ).start()


def _exit_with_parent(pipe: int) -> None:
    closing = select.poll()
    closing.register(pipe, 0)  # no event but the closing, which is always reported
    closing.poll()
    log.info("the server process ended: this process exits")
    logging.shutdown()
    os._exit(0)
