"""A process of a server never outlives it, whatever it is doing when the server dies: loading, painting, hanging.

So no process is left behind, and no GPU memory.
"""

import ctypes
import logging
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection

log = logging.getLogger("scanline.engine")

PR_SET_PDEATHSIG = 1


def exit_with_parent(connection: Connection) -> None:
    """Exit this process as soon as the other end of `connection` is closed, whatever it is doing.

    On Linux the kernel does the same (PR_SET_PDEATHSIG), which also reaches a process that is stopped or whose
    interpreter hangs. That signal follows the thread that started the process, which must live as long as the server.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_wait, args=(connection.fileno(),), name="watch-parent", daemon=True).start()


def _wait(pipe: int) -> None:
    closing = select.poll()
    closing.register(pipe, 0)  # no event but the closing, which is always reported
    closing.poll()
    log.info("the server process is gone: this process exits")
    os._exit(0)
