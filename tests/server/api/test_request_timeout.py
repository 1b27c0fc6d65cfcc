"""A request that takes too long is answered with 504, or with an error event once its stream has begun."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from scanline.server.settings import Settings
from tests.support.pictures import encode, noise, text
from tests.support.server.in_process_server import serve_in_process, wait_until_no_jobs
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import PATIENCE, Server, serve
from tests.support.server.shared_servers import LONG, arguments
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
def impatient_server(grey_directory: Path) -> Iterator[Server]:
    options = {"slots": 4, "max-waiting-images": 2 * LONG, "max-images-per-request": LONG}
    options |= {"client-share": 1, "request-timeout": 0.5}
    with serve(grey_directory, *arguments(options)) as server:
        yield server


@pytest.fixture
def client(impatient_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=impatient_server.url, timeout=PATIENCE) as client:
        yield client


def test_a_post_times_out_and_is_logged(impatient_server: Server, client: httpx.Client) -> None:
    response = client.post(URL, json={"n": LONG}, headers={"x-request-id": "slow"})
    assert (response.status_code, response.json()["error"]) == (504, ERROR)
    assert response.headers["x-should-retry"] == "false"
    wait_until_idle(client)
    (line,) = wait_for(lambda: [line for line in impatient_server.log if "request_id=slow" in line], "a log line")
    assert "status=504" in line
    assert "error=request_timeout" in line


def test_an_edit_times_out(client: httpx.Client) -> None:
    fields = {"image": text(encode(noise(7, 5))), "keep_rows": 2, "n": LONG}
    assert client.post("/v1/images/edits", json=fields).json()["error"] == ERROR
    wait_until_idle(client)


@pytest.mark.parametrize("partial_images", [0, 3])
def test_a_stream_times_out(client: httpx.Client, partial_images: int) -> None:
    with client.stream("POST", URL, json={"n": LONG, "stream": True, "partial_images": partial_images}) as response:
        assert response.status_code == 200
        assert read(response.iter_lines())[-1] == {"error": ERROR}
    wait_until_idle(client)


def test_a_websocket_job_times_out_without_its_connection(impatient_server: Server, client: httpx.Client) -> None:
    with connected(impatient_server.url) as websocket:
        job = websocket.paint(type="generate", id="long", n=LONG)
        assert job.messages[-1] == {"type": "error", "id": "long", "error": ERROR}
        wait_until_idle(client)
        assert websocket.paint(type="generate", id="wrong", n=0).messages[-1]["error"]["code"] == "invalid_value"


def test_the_official_client_does_not_retry(impatient_server: Server, client: httpx.Client) -> None:
    before = Metrics(client).of("errors_total", code="request_timeout")
    official = openai.OpenAI(base_url=f"{impatient_server.url}/v1", api_key="none")
    with official, pytest.raises(openai.InternalServerError, match="exceeded the server's limit"):
        official.images.generate(prompt="", n=LONG)
    assert Metrics(client).of("errors_total", code="request_timeout") == before + 1


def test_a_stream_that_is_not_read_times_out(grey_directory: Path) -> None:
    limits = {"max_waiting_images": LONG, "max_images_per_request": LONG, "client_share": 1, "request_timeout": 1}
    settings = Settings(models=(str(grey_directory),), slots=4, threads=1, **limits)
    with serve_in_process(settings) as (url, engine), slow_stream(url, n=LONG):
        assert engine.reserved_images > LONG // 2
        wait_until_no_jobs(engine)
