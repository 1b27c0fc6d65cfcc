"""Cancelling on a websocket: the job ends at once, the connection lives on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import ENDLESS
from tests.support.running_server import Server, serve
from tests.support.websocket_client import Painter, connected

CANCELLED = {"type": "done", "id": "a", "cancelled": True}


@pytest.fixture(scope="module")
def server(grey_directory: Path) -> Iterator[Server]:
    """A server with minutes of work in one job."""
    options = {"slots": 64, "max-images-per-request": ENDLESS, "max-waiting-images": 2 * ENDLESS}
    with serve(grey_directory, *(f"--{name}={value}" for name, value in options.items())) as server:
        yield server


@pytest.fixture
def painter(server: Server) -> Iterator[Painter]:
    with connected(server.url) as painter:
        yield painter


def test_a_cancelled_job_is_done_early(painter: Painter) -> None:
    painter.send(type="generate", id="a", n=ENDLESS)
    painter.hear()
    painter.send(type="cancel", id="a")
    job = painter.hear_ends(1)["a"]
    assert job.messages[-1] == CANCELLED
    assert sum(message["type"] == "image" for message in job.messages) < ENDLESS


def test_a_cancelled_job_says_nothing_more(painter: Painter) -> None:
    painter.send(type="generate", id="a", n=ENDLESS)
    painter.send(type="generate", id="b", n=1)
    painter.hear_ends(1)
    painter.send(type="cancel", id="a")
    painter.send(type="generate", id="c", n=70)
    assert painter.hear_ends(2)["a"].messages[-1] == CANCELLED
    assert painter.jobs["a"].order[-1] == "done"


def test_a_cancel_leaves_the_other_jobs_alone(painter: Painter) -> None:
    painter.send(type="generate", id="a", n=ENDLESS, seed=1)
    painter.send(type="generate", id="b", n=200, seed=2)
    painter.send(type="cancel", id="a")
    painter.hear_ends(2)
    assert painter.jobs["b"].images().shape == (200, 35)


def test_a_job_can_be_cancelled_before_it_began(painter: Painter) -> None:
    painter.send_together({"type": "generate", "id": "a"}, {"type": "cancel", "id": "a"})
    assert painter.hear_ends(1)["a"].messages == [CANCELLED]


def test_an_id_that_never_began_can_be_used_again(painter: Painter) -> None:
    painter.send_together({"type": "generate", "id": "a"}, {"type": "cancel", "id": "a"})
    painter.hear_ends(1)
    assert painter.paint(type="generate", id="a").order[-1] == "done"


def test_a_cancelled_id_can_be_used_again(painter: Painter) -> None:
    for _ in range(10):
        painter.send(type="generate", id="a", n=ENDLESS)
        painter.send(type="cancel", id="a")
    painter.hear_ends(10)
    assert painter.paint(type="generate", id="a").order[-1] == "done"
