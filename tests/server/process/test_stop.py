"""The end of a server: until its drain has ended all connections are answered, then
they are refused; none is reset.
"""

import os
import signal
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.model.tasks.offline import paint
from scanline.server.process.listening import listen
from scanline.server.settings import Settings
from tests.server.engine.remote.conftest import only, wait_for_processes
from tests.support.server.running_server import (
    PATIENCE,
    command_line,
    descendants,
    serve,
)
from tests.support.server.shared_servers import LONG, NO_DELAY, arguments
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

VISITORS = 4
IMAGES = 300  # of the job that a loaded server has in progress
OPTIONS = {
    "slots": 4,
    "drain-seconds": PATIENCE,
    "client-share": 1,
    "max-images-per-request": LONG,
    **NO_DELAY,
}
OPTIONS |= {"max-waiting-images": 2 * LONG, "request-timeout": 1_000_000}
ASK = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


class Visitor(threading.Thread):
    """Asks on one new connection after the other, until one is refused."""

    def __init__(self, server):
        super().__init__()
        self.address = httpx.URL(server.url)
        self.answers = []  # statuses, and names of errors

    def run(self):
        while "ConnectionRefusedError" not in self.answers:
            try:
                with socket.create_connection(
                    (self.address.host, self.address.port), PATIENCE
                ) as connection:
                    connection.sendall(ASK)
                    answer = connection.recv(65536)
                self.answers.append(answer[9:12].decode())
            except OSError as error:
                self.answers.append(type(error).__name__)


def begin(websocket, images):
    websocket.send(type="generate", id="job", n=images, seed=7)
    websocket.receive()


def listens(server, process):
    """Whether a process has the socket that the server listens on."""
    port = f":{httpx.URL(server.url).port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    (listening,) = [
        f"socket:[{row[9]}]" for row in rows if row[1].endswith(port) and row[3] == "0A"
    ]
    return listening in [
        os.readlink(descriptor) for descriptor in Path(f"/proc/{process}/fd").iterdir()
    ]


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("processes", [1, 2])
def test_connections_are_answered_or_refused(grey_directory, grey, processes, is_loaded):
    options = arguments({**OPTIONS, "api-processes": processes})
    with serve(grey_directory, *options) as server, ExitStack() as stack:
        if is_loaded:
            websocket = stack.enter_context(connected(server.url))
            begin(websocket, IMAGES)
        visitors = [Visitor(server) for _ in range(VISITORS)]
        for visitor in visitors:
            visitor.start()
        wait_for(lambda: all(visitor.answers for visitor in visitors), "the first answers")
        server.process.send_signal(signal.SIGTERM)
        if is_loaded:
            job = websocket.receive_until_finished(1)["job"]
            np.testing.assert_array_equal(job.images(), paint(grey, IMAGES, seed=7).images)
        for visitor in visitors:
            visitor.join(PATIENCE)
            *before, last = visitor.answers
            assert last == "ConnectionRefusedError"
            assert set(before) <= {"200", "503"}
        assert server.wait_until_exited() == 0


def test_a_process_that_has_drained_answers_until_the_others_have(grey_directory):
    with (
        serve(grey_directory, *arguments({**OPTIONS, "api-processes": 2})) as server,
        ExitStack() as stack,
    ):
        busy, idle = wait_for_processes(server)
        with only(server, busy):
            websocket = stack.enter_context(connected(server.url))
        begin(websocket, LONG)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("drained")
        assert not listens(server, server.process.pid), (
            "connections would wait for a process that accepts none"
        )
        for _ in range(20):
            while not websocket.receive().last.startswith("image"):
                pass
            assert idle in server.api_processes()
        with only(server, idle), server.client() as client:
            assert client.get("/readyz").status_code == 503
        websocket.send(type="cancel", id="job")
        assert server.wait_until_exited() == 0


def test_a_closed_unix_socket_leaves_that_of_the_next_server(tmp_path):
    """Also where the file system would give the next socket the number
    of the last one that was removed.
    """
    path = tmp_path / "scanline.sock"
    with listen(Settings(unix_socket=path)) as old:
        old.close()
        with listen(Settings(unix_socket=path)):
            assert path.exists()
        with socket.socket(socket.AF_UNIX) as another:
            another.bind(os.fspath(path))
    assert path.exists()


def test_an_export_that_does_not_end_is_ended_with_the_server_without_a_traceback(grey_directory):
    def export():
        for process in descendants(server.process.pid):
            if "-m scanline.server.api.weights_export" in command_line(process):
                return process
        return 0

    path = f"/v1/models/{grey_directory.name}/weights"
    with serve(grey_directory) as server, socket.socket() as connection:
        address = httpx.URL(server.url)
        connection.connect((address.host, address.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        os.kill(wait_for(export, "an export"), signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_until_exited() == 0
        assert "Traceback" not in server.log_text
