"""A request that takes too long is answered with 504, or with an error event once its stream has begun."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.server.in_process_server import serve_in_process, wait_until_no_jobs
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import PATIENCE
from tests.support.server.shared_servers import LONG
from tests.support.server.sse_reader import read, slow_stream
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

URL = "/v1/images/generations"
ERROR = {
    "message": "The request exceeded the server's limit of 0.5 seconds.",
    "type": "server_error",
    "param": None,
    "code": "request_timeout",
}


@pytest.fixture(scope="module")
def impatient(grey_directory: Path) -> Iterator[tuple[str, EngineClient]]:
    limits = {"max_waiting_images": 2 * LONG, "max_images_per_request": LONG, "client_share": 1, "request_timeout": 0.5}
    with serve_in_process(Settings(models=(str(grey_directory),), slots=4, threads=1, **limits)) as served:
        yield served


@pytest.fixture
def client(impatient: tuple[str, EngineClient]) -> Iterator[httpx.Client]:
    """No job is left after a test."""
    with httpx.Client(base_url=impatient[0], timeout=PATIENCE) as client:
        yield client
    wait_until_no_jobs(impatient[1])


def test_a_request_times_out_and_is_not_to_be_sent_again(client: httpx.Client) -> None:
    response = client.post(URL, json={"n": LONG})
    assert (response.status_code, response.json()["error"]) == (504, ERROR)
    assert response.headers["x-should-retry"] == "false"
    assert Metrics(client).of("errors_total", code="request_timeout") >= 1


def test_a_stream_times_out(client: httpx.Client) -> None:
    with client.stream("POST", URL, json={"n": LONG, "stream": True, "partial_images": 3}) as response:
        assert response.status_code == 200
        assert read(response.iter_lines())[-1] == {"error": ERROR}


def test_a_websocket_job_times_out_without_its_connection(client: httpx.Client) -> None:
    with connected(str(client.base_url).rstrip("/")) as websocket:
        job = websocket.paint(type="generate", id="long", n=LONG)
        assert job.messages[-1] == {"type": "error", "id": "long", "error": ERROR}
        assert websocket.paint(type="generate", id="wrong", n=0).messages[-1]["error"]["code"] == "invalid_value"


def test_a_stream_that_is_not_read_times_out(impatient: tuple[str, EngineClient]) -> None:
    url, engine = impatient
    with slow_stream(url, n=LONG):
        wait_for(lambda: engine.jobs, "a job")
        wait_until_no_jobs(engine)
