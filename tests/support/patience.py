"""How long a test waits for what takes moments on an idle machine, and how it does: again and again, never for ever."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300  # seconds, for what takes few on an idle machine
Found = TypeVar("Found")


def wait_for(find: Callable[[], Found], what: str) -> Found:
    """What is found, as soon as it is something; `what` says in the failure what never came."""
    deadline = time.monotonic() + PATIENCE
    while not (found := find()):
        assert time.monotonic() < deadline, f"{what}, which does not come"
        time.sleep(0.01)
    return found
