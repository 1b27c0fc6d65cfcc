"""A request that takes too long: 504 where there is still a status, an error told in the stream where there is not."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from scanline.server.settings import Settings
from tests.server.api.events.test_slow_events import streaming, wait_until_forgotten
from tests.server.api.routes.test_metrics import Numbers, until
from tests.support.in_process_server import inside
from tests.support.pictures import encode, noise, text
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.sse_reader import read
from tests.support.websocket_client import connected

URL = "/v1/images/generations"
LONG = 100_000  # images: minutes of work
ERROR = {
    "message": "The request exceeded the server's limit of 0.5 seconds.",
    "type": "server_error",
    "param": None,
    "code": "request_timeout",
}


@pytest.fixture(scope="module")
def hasty(grey_directory: Path) -> Iterator[Server]:
    options = {"slots": 4, "max-waiting-images": 2 * LONG, "max-images-per-request": LONG, "request-timeout": 0.5}
    with serve(grey_directory, *(f"--{name}={value}" for name, value in options.items())) as server:
        yield server


@pytest.fixture
def client(hasty: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=hasty.url, timeout=PATIENCE) as client:
        yield client


def wait_until_free(client: httpx.Client) -> None:
    until(client, lambda now: now.of("num_images_reserved") == now.of("num_images_running") == 0)


def test_a_post_is_given_up(client: httpx.Client) -> None:
    response = client.post(URL, json={"n": LONG})
    assert (response.status_code, response.json()["error"]) == (504, ERROR)
    assert response.headers["x-should-retry"] == "false"
    wait_until_free(client)


def test_a_completion_is_given_up(client: httpx.Client) -> None:
    fields = {"image": text(encode(noise(7, 5))), "keep_rows": 2, "n": LONG}
    assert client.post("/v1/images/edits", json=fields).json()["error"] == ERROR
    wait_until_free(client)


@pytest.mark.parametrize("partial_images", [0, 3])
def test_a_stream_is_given_up(client: httpx.Client, partial_images: int) -> None:
    with client.stream("POST", URL, json={"n": LONG, "stream": True, "partial_images": partial_images}) as response:
        assert response.status_code == 200
        assert read(response.iter_lines())[-1] == {"error": ERROR}
    wait_until_free(client)


def test_a_websockets_job_is_given_up_and_the_connection_lives_on(hasty: Server, client: httpx.Client) -> None:
    with connected(hasty.url) as painter:
        told = painter.paint(type="generate", id="long", n=LONG)
        assert told.messages[-1] == {"type": "error", "id": "long", "error": ERROR}
        wait_until_free(client)
        assert painter.paint(type="generate", id="wrong", n=0).messages[-1]["error"]["code"] == "invalid_value"


def test_the_official_client_does_not_ask_again(hasty: Server, client: httpx.Client) -> None:
    before = Numbers(client).of("errors_total", code="request_timeout")
    official = openai.OpenAI(base_url=f"{hasty.url}/v1", api_key="none")
    with official, pytest.raises(openai.InternalServerError, match="exceeded the server"):
        official.images.generate(prompt="", n=LONG)
    assert Numbers(client).of("errors_total", code="request_timeout") == before + 1


def test_it_is_told_in_the_log(hasty: Server, client: httpx.Client) -> None:
    client.post(URL, json={"n": LONG}, headers={"x-request-id": "slow"})
    until(client, lambda _: any("request_id=slow" in line for line in hasty.log))
    (line,) = [line for line in hasty.log if "request_id=slow" in line]
    assert "status=504" in line
    assert "error=request_timeout" in line


def test_a_stream_that_nobody_reads_is_given_up_too(grey_directory: Path) -> None:
    options = {"slots": 4, "max_waiting_images": LONG, "max_images_per_request": LONG, "request_timeout": 3}
    settings = Settings(models=(str(grey_directory),), **options)
    with inside(settings) as (url, engine), streaming(url, n=LONG):
        assert engine.reserved_images == LONG
        wait_until_forgotten(engine)
