"""Cancelling a job on a websocket ends the job at once and leaves the connection open."""

from collections.abc import Iterator

import pytest

from tests.support.server.running_server import Server
from tests.support.server.shared_servers import LONG
from tests.support.server.websocket_client import WebsocketClient, connected

CANCELLED = {"type": "done", "id": "a", "cancelled": True}


@pytest.fixture
def websocket(limited_server: Server) -> Iterator[WebsocketClient]:
    with connected(limited_server.url) as websocket:
        yield websocket


def test_a_cancelled_job_is_done_early_and_sends_nothing_more(websocket: WebsocketClient) -> None:
    websocket.send(type="generate", id="a", n=LONG, seed=1)
    websocket.receive()
    websocket.send(type="generate", id="b", n=40, seed=2)
    websocket.send(type="cancel", id="a")
    job = websocket.receive_until_finished(2)["a"]
    assert websocket.jobs["b"].images().shape == (40, 35)
    assert job.messages[-1] == CANCELLED
    assert job.order[-1] == "done"


def test_a_job_can_be_cancelled_before_it_began(websocket: WebsocketClient) -> None:
    for number in range(10):  # its id can be used again
        websocket.send_together({"type": "generate", "id": "a"}, {"type": "cancel", "id": "a"})
        assert websocket.receive_until_finished(1)["a"].messages == [CANCELLED] * (number + 1)
    assert websocket.paint(type="generate", id="a").order[-1] == "done"
