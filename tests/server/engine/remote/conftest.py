"""A server with two API processes, one of which answers at a time
where a test wants to know which.
"""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.server.running_server import serve
from tests.support.server.shared_servers import LONG, NO_DELAY, arguments
from tests.support.waiting import wait_for

KEY = "sk-shared"
LIMITS = {
    "slots": 4,
    "max-images-per-request": LONG,
    "max-waiting-images": 4 * LONG,
    "client-share": 1,
    "api-key": KEY,
}
# a client stays with its process
KEPT = {"request-timeout": 36_000, "keep-alive-timeout": 600}
OPTIONS = arguments({"api-processes": 2, **LIMITS, **KEPT, **NO_DELAY})


@pytest.fixture(scope="module")
def shared_server(grey_directory):
    with serve(grey_directory, *OPTIONS) as server:
        yield server


@pytest.fixture
def processes(shared_server):
    return wait_for_processes(shared_server)


def wait_for_processes(server):
    """Both API processes, once there are two that listen."""
    found = wait_for(
        lambda: server.api_processes() if len(server.api_processes()) == 2 else [],
        "two API processes",
    )
    for process in found:
        with only(server, process), server.client() as client:
            assert client.get("/healthz").status_code == 200
    return found


@contextmanager
def only(server, process):
    """Let new connections go to one API process: the other ones stand still meanwhile."""
    others = [other for other in server.api_processes() if other != process]
    for other in others:
        os.kill(other, signal.SIGSTOP)
        # On a busy machine it may accept the next connection before it stops.
        status = Path(f"/proc/{other}/status")
        wait_for(
            lambda status=status: "(stopped)" in status.read_text(), "a process that stands still"
        )
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)
