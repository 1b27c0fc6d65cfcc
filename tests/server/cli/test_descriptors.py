"""The server raises its limit of open files to what the system allows, and logs one that is too low."""

import resource
import subprocess
import sys

CODE = """
import logging, resource
from scanline.server.process.running import raise_descriptor_limit
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000))
for connections in (100, 2000):
    raise_descriptor_limit(connections)
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_is_raised_to_what_the_system_allows_and_one_too_low_is_logged() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 1000
    command = [sys.executable, "-c", CODE]  # a process of its own, since a hard limit cannot be raised again
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "1000\n1000\n"
    assert ran.stderr == "the limit of 1000 open files is too low for 2000 connections: raise ulimit -n\n"
