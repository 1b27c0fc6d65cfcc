"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300  # seconds: the deadline for anything that takes moments on an idle machine
Found = TypeVar("Found")


def wait_for(find: Callable[[], Found], what: str) -> Found:
    """Calls `find` until it returns something true, and returns that; `what` names it in the failure message."""
    deadline = time.monotonic() + PATIENCE
    while not (found := find()):
        assert time.monotonic() < deadline, f"timed out after {PATIENCE} s waiting for {what}"
        time.sleep(0.01)
    return found
