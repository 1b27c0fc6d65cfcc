"""deploy/scanline.service: a server paints within the system calls that it
allows, and what it limits suffices.
"""

import ctypes.util
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from scanline.model.tasks.offline import paint
from scanline.server.process.running import OTHER_DESCRIPTORS
from scanline.server.settings import Settings
from tests.support.manifests import UNIT
from tests.support.pictures import painted
from tests.support.server.infrastructure import confined
from tests.support.server.json_requests import GENERATIONS
from tests.support.server.running_server import Server

UNIT_OPTIONS = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed"
)

needs_seccomp = pytest.mark.skipif(
    not ctypes.util.find_library("seccomp"), reason="libseccomp is not installed"
)


def allowed_calls(name):
    """The system calls of a set, and of the sets in it."""
    command = ["systemd-analyze", "syscall-filter", name]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    calls = []
    for word in re.findall(r"^ +([@\w-]+)$", listed, re.MULTILINE):
        if word.startswith("@"):
            calls += allowed_calls(word)
        else:
            calls.append(word)
    return calls


@needs_systemd
@needs_seccomp
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_server_paints_and_stops_with_the_system_calls_of_the_unit(
    grey_directory, grey, processes
):
    families = UNIT_OPTIONS["RestrictAddressFamilies"]
    calls = " ".join(allowed_calls(UNIT_OPTIONS["SystemCallFilter"]))
    command = [sys.executable, confined.__file__, families, calls]
    server = Server(
        grey_directory, "--api-processes", processes, "--host", "localhost", command=command
    )
    try:
        server.wait_until_ready()
        with server.client() as client:
            answer = client.post(GENERATIONS, json={"n": 3, "seed": 7}).json()
            np.testing.assert_array_equal(
                painted(answer).reshape(3, -1), paint(grey, 3, seed=7).images
            )
            assert client.get("/v1/models/grey/weights").status_code == 200
    finally:
        server.stop()
    assert server.process.poll() == 0
    assert "Operation not permitted" not in "".join(server.log)


@needs_systemd
@needs_seccomp
def test_a_forbidden_call_is_refused():
    calls = " ".join(allowed_calls(UNIT_OPTIONS["SystemCallFilter"]))
    code = "import socket, os\ntry:\n socket.socket(socket.AF_PACKET, 3)\nexcept PermissionError: os.chroot('/')"
    command = [sys.executable, confined.__file__, "AF_UNIX", calls, sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stderr.endswith("PermissionError: [Errno 1] Operation not permitted: '/'\n")


def test_the_unit_has_room_for_all_connections():
    connections = Settings.model_fields["max_connections"].default
    assert int(UNIT_OPTIONS["LimitNOFILE"]) >= connections + OTHER_DESCRIPTORS
