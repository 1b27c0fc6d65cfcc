"""An engine never outlives its server, whatever it does when the server dies: load, tick, hang, stand still.

No process is left behind, and no memory of a device.
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


def leave_with_parent(connection: Connection) -> None:
    """Ends this process as soon as the other end of `connection` is closed, in the middle of whatever it does.

    Where the kernel can, it sees to it too: that reaches a process that is stopped, or whose interpreter hangs. It
    goes by the thread that started the process, which must therefore live as long as the server.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_wait, args=(connection.fileno(),), name="engine-parent", daemon=True).start()


def _wait(pipe: int) -> None:
    closing = select.poll()
    closing.register(pipe, 0)  # nothing but its closing, which is always told
    closing.poll()
    log.info("the server is gone; so is its engine")
    os._exit(0)
