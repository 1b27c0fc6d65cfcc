"""Open files: the limit is raised to what the system allows; what that has no room for is refused, and logged once."""

import os
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.server.running_server import PATIENCE, serve
from tests.support.waiting import wait_for

CODE = """
import logging, resource
from scanline.server.process.running import within_descriptors
from scanline.server.settings import Settings
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000))
for connections in (100, 2000):
    settings = within_descriptors(Settings(max_connections=connections, max_websockets=100))
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], settings.max_connections, settings.max_websockets)
"""


def test_the_limit_is_raised_to_what_the_system_allows_and_fewer_connections_are_kept_and_logged() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 1000
    command = [sys.executable, "-c", CODE]  # a process of its own, since a hard limit cannot be raised again
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "1000 100 100\n1000 744 100\n"
    sentence = "the limit of 1000 open files has room for 744 connections, not 2000: raise ulimit -n\n"
    assert ran.stderr == sentence


def test_a_server_without_descriptors_logs_that_once_and_goes_on(grey_directory: Path) -> None:
    with serve(grey_directory, "--slots", "1") as server, ExitStack() as stack:
        address = httpx.URL(server.url)
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        few = len(os.listdir(f"/proc/{server.process.pid}/fd")) + 3
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (few, limits[1]))
        for _ in range(20):
            stack.enter_context(socket.create_connection((address.host, address.port)))
        wait_for(lambda: "out of system resource" in "".join(server.log), "a line in the log")
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
        assert "".join(server.log).count("out of system resource") < 5  # of thousands; one every ten seconds


@pytest.mark.slow
def test_connections_beyond_few_descriptors_are_refused_without_running_out(grey_directory: Path) -> None:
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (64, 64))
    with serve(grey_directory, "--slots", "1", prepare=few) as server:
        address = httpx.URL(server.url)
        with ExitStack() as stack:
            for _ in range(80):
                stack.enter_context(socket.create_connection((address.host, address.port)))
            wait_for(lambda: "too_many_connections" in "".join(server.log), "a refusal")
        wait_for(lambda: httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200, "room")
        assert "out of system resource" not in "".join(server.log)
