"""`scanline serve` as a process: what ends it, and that its engine ends with it."""

import os
import signal
import socket
from pathlib import Path

import httpx
import pytest

from scanline.server.cli.commands.serve import _listen
from tests.support.running_server import Server, serve
from tests.support.waiting import PATIENCE, wait_for
from tests.support.websocket_client import connected

ENDLESS = 100_000  # images: minutes of work
LONG = (
    "--slots",
    "1",
    "--max-images-per-request",
    str(ENDLESS),
    "--max-waiting-images",
    str(ENDLESS),
    "--client-share",
    "1",
)


def assert_left(server: Server, status: int) -> None:
    """Assert that a server and its engine end, with that status and no traceback."""
    __tracebackhide__ = True
    assert server.wait_until_exited() == status
    assert "Traceback" not in "".join(server.log)


def test_an_engine_that_is_killed_again_and_again_ends_the_server(grey_directory: Path) -> None:
    with serve(grey_directory, *LONG) as server, connected(server.url) as painter:
        painter.send(type="generate", n=ENDLESS)
        painter.receive()
        engine = None
        for _ in range(5):
            engine = server.wait_for_engine(after=engine)
            os.kill(engine, signal.SIGKILL)
        error = painter.receive_until_finished(1)[0].messages[-1]["error"]
        assert (error["type"], error["code"]) == ("server_error", "engine_failed")
        assert_left(server, 1)


def test_a_killed_server_takes_along_a_stopped_engine_with_work(grey_directory: Path) -> None:
    with serve(grey_directory, *LONG) as server, connected(server.url) as painter:
        painter.send(type="generate", n=ENDLESS)
        painter.receive()
        server.process.kill()
        assert_left(server, -signal.SIGKILL)


def test_a_killed_server_takes_along_an_engine_that_stands_still(grey_directory: Path) -> None:
    with serve(grey_directory) as server:
        os.kill(server.engine, signal.SIGSTOP)
        server.process.kill()
        assert_left(server, -signal.SIGKILL)


def test_a_killed_server_takes_along_an_engine_that_loads(tmp_path: Path, grey_directory: Path) -> None:
    """The weights are a pipe that is never written."""
    (tmp_path / "config.json").write_bytes((grey_directory / "config.json").read_bytes())
    os.mkfifo(tmp_path / "model.safetensors")
    server = Server(tmp_path)
    server.wait_until_listening()
    server.process.kill()
    assert_left(server, -signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_server_and_engine_at_once(grey_directory: Path, number: signal.Signals) -> None:
    with serve(grey_directory, *LONG, "--drain-seconds", "3600") as server, connected(server.url) as painter:
        painter.send(type="generate", n=ENDLESS)
        painter.receive()
        server.process.send_signal(number)
        wait_for(lambda: httpx.get(f"{server.url}/readyz", timeout=PATIENCE).status_code == 503, "a server that drains")
        server.process.send_signal(number)
        assert_left(server, -number)


def test_ctrl_c_ends_an_idle_server_with_status_0(grey_directory: Path) -> None:
    """A terminal's Ctrl-C goes to the engine too."""
    with serve(grey_directory) as server:
        os.kill(server.engine, signal.SIGINT)
        server.process.send_signal(signal.SIGINT)
        assert_left(server, 0)


def test_sigterm_ends_a_server_that_still_loads_with_status_0(tmp_path: Path, grey_directory: Path) -> None:
    (tmp_path / "config.json").write_bytes((grey_directory / "config.json").read_bytes())
    os.mkfifo(tmp_path / "model.safetensors")  # which is never written
    server = Server(tmp_path)
    try:
        server.wait_until_listening()
        assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
        os.kill(server.wait_for_engine(), signal.SIGINT)
    finally:
        server.stop()
    assert_left(server, 0)


def test_responses_do_not_wait_for_acknowledgements() -> None:
    with _listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
