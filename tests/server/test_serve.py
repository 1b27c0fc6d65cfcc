"""`scanline serve` as a process: how it starts, how it ends, and what ends with it."""

import os
import signal
from pathlib import Path

from tests.server.painter import connected
from tests.server.running import Server, serve

ENDLESS = 100_000  # images: minutes of work
LONG = ("--slots", "1", "--max-images-per-request", str(ENDLESS), "--max-waiting-images", str(ENDLESS))


def stopped(server: Server, status: int) -> str:
    """The log of a server that has left with that status, and its engine with it."""
    assert server.wait_until_all_have_left() == status
    log = "".join(server.log)
    assert "Traceback" not in log
    return log


def test_a_killed_engine_ends_the_server(grey_directory: Path) -> None:
    with serve(grey_directory, *LONG) as server, connected(server.url) as painter:
        painter.send(type="generate", n=ENDLESS)
        painter.hear()
        os.kill(server.engine, signal.SIGKILL)
        error = painter.hear_ends(1)[0].messages[-1]["error"]
        assert (error["type"], error["code"]) == ("server_error", "engine_failed")
        stopped(server, 1)


def test_a_killed_server_takes_its_engine_along(grey_directory: Path) -> None:
    with serve(grey_directory, *LONG) as server, connected(server.url) as painter:
        painter.send(type="generate", n=ENDLESS)
        painter.hear()
        server.process.kill()
        stopped(server, -signal.SIGKILL)
