"""`scanline serve` as a process: what ends it, and what ends with it."""

import os
import signal
from pathlib import Path

from tests.server.painter import connected
from tests.server.running import Server, serve

ENDLESS = 100_000  # images: minutes of work
LONG = ("--slots", "1", "--max-images-per-request", str(ENDLESS), "--max-waiting-images", str(ENDLESS))


def assert_left(server: Server, status: int) -> None:
    """Fails where a server and its engine do not leave, with that status and no traceback."""
    __tracebackhide__ = True
    assert server.wait_until_all_have_left() == status
    assert "Traceback" not in "".join(server.log)


def test_a_killed_engine_ends_the_server(grey_directory: Path) -> None:
    with serve(grey_directory, *LONG) as server, connected(server.url) as painter:
        painter.send(type="generate", n=ENDLESS)
        painter.hear()
        os.kill(server.engine, signal.SIGKILL)
        error = painter.hear_ends(1)[0].messages[-1]["error"]
        assert (error["type"], error["code"]) == ("server_error", "engine_failed")
        assert_left(server, 1)


def test_a_killed_server_takes_its_engine_along(grey_directory: Path) -> None:
    with serve(grey_directory, *LONG) as server, connected(server.url) as painter:
        painter.send(type="generate", n=ENDLESS)
        painter.hear()
        server.process.kill()
        assert_left(server, -signal.SIGKILL)


def test_an_interrupted_server_leaves_in_peace(grey_directory: Path) -> None:
    with serve(grey_directory) as server:
        server.process.send_signal(signal.SIGINT)
        assert_left(server, 128 + signal.SIGINT)
