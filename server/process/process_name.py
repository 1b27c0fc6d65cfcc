"""The name by which `ps` and `top` show a process of a server."""

import ctypes
import multiprocessing
import sys

PR_SET_NAME = 15


def show_process_name() -> None:
    """Let this process be shown by the name that multiprocessing gave it, on Linux at most 15 bytes of it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NAME, multiprocessing.current_process().name.encode())
