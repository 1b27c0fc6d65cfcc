"""The room of the queue: how much of it one client may have, and how long a request may take."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import ONE_SENTENCE, answer_of, assert_refused
from tests.support.server.in_process_server import serve_in_process, wait_until_no_jobs
from tests.support.server.metrics_reader import Metrics, wait_for_metrics, wait_until_idle
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import LONG, NO_DEADLINE, arguments
from tests.support.server.sse_reader import read, slow_stream
from tests.support.server.websocket_client import WebsocketClient, connected
from tests.support.waiting import PATIENCE, wait_for

URL = "/v1/images/generations"
MORE = 10_000  # images: as many are not painted in the moments between two requests


@pytest.fixture
def client(full_queue_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=full_queue_server.url, timeout=PATIENCE) as client:
        wait_until_idle(client)
        yield client


@contextmanager
def full_queue(server: Server) -> Iterator[WebsocketClient]:
    """A websocket whose job takes up all room at first, and most of it until it closes."""
    with connected(server.url) as websocket:
        websocket.send(type="generate", id="full", n=LONG)
        websocket.receive()
        yield websocket


def wait_for_room(client: httpx.Client) -> None:
    """Waits until all room is free."""
    wait_until_idle(client)
    assert client.post(URL, json={}).status_code == 200


def test_a_full_queue_refuses_more_and_a_cancelled_job_gives_its_room_back(
    full_queue_server: Server, client: httpx.Client
) -> None:
    """Streams before they begin, edits and likelihoods before their pictures are decoded."""
    with full_queue(full_queue_server) as websocket:
        response = client.post(URL, json={"n": MORE})
        assert_refused(response, 429, None, "queue_full")
        assert int(response.headers["retry-after"]) > 0
        assert_refused(client.post(URL, json={"stream": True, "n": MORE}), 429, None, "queue_full")
        for url in ("/v1/images/edits", "/v1/images/likelihoods"):
            response = client.post(url, json={"image": [text(b"no picture")] * MORE})
            assert_refused(response, 429, None, "queue_full")
        websocket.send(type="generate", id="more", n=MORE)
        while "more" not in websocket.jobs:
            websocket.receive()
        assert websocket.jobs["more"].messages[0]["error"]["code"] == "queue_full"
        websocket.send(type="cancel", id="full")
        wait_for_room(client)


def test_a_refused_request_gives_its_room_back(client: httpx.Client) -> None:
    small = encode(noise(3, 3))
    response = client.post("/v1/images/edits", json={"image": text(small), "n": LONG, "keep_rows": 1})
    assert_refused(response, 400, "image", "wrong_size")
    assert Metrics(client).of("num_images_reserved") == 0
    assert client.post(URL, json={}).status_code == 200
    assert_refused(client.post(URL, json={"n": LONG + 1}), 400, "n", "invalid_value")


SLOTS, MAX_WEBSOCKETS = 4, 4
OPTIONS = {
    "slots": SLOTS,
    "max-waiting-images": LONG - SLOTS,
    "max-images-per-request": LONG,
    "max-websockets": MAX_WEBSOCKETS,
    **NO_DEADLINE,
    "client-share": 0.5,
}
SECOND_ADDRESS = "127.0.0.2"  # of a second client on this machine


@pytest.fixture(scope="module")
def shared(grey_directory: Path) -> Iterator[Server]:
    with serve(grey_directory, *arguments(OPTIONS)) as server:
        yield server


@pytest.fixture
def first(shared: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared.url, timeout=PATIENCE) as client:
        wait_for_metrics(client, lambda now: now.of("num_jobs") == now.of("websocket_connections") == 0)
        yield client


@pytest.fixture
def second(shared: Server) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(local_address=SECOND_ADDRESS)
    with httpx.Client(base_url=shared.url, timeout=PATIENCE, transport=transport) as client:
        yield client


def test_a_client_with_its_share_of_the_queue_is_refused_and_another_is_not(
    shared: Server, first: httpx.Client, second: httpx.Client
) -> None:
    with connected(shared.url) as websocket:
        websocket.send(type="generate", n=LONG // 2)
        websocket.receive()
        refused = first.post(URL, json={"n": MORE})
        assert_refused(refused, 429, None, "client_queue_full")
        assert 1 <= int(refused.headers["retry-after"]) <= 600
        websocket.send(type="generate", id="more", n=MORE)
        while "more" not in websocket.jobs:
            websocket.receive()
        assert websocket.jobs["more"].messages[0]["error"]["code"] == "client_queue_full"
        assert second.post(URL, json={}).status_code == 200
    assert Metrics(first).of("requests_rejected_total", reason="client_queue_full") >= 2


def test_a_request_above_a_clients_share_is_refused_without_a_time_to_retry(first: httpx.Client) -> None:
    refused = first.post(URL, json={"n": LONG // 2 + 1})
    assert_refused(refused, 429, None, "client_queue_full")
    assert "retry-after" not in refused.headers
    assert refused.headers["x-should-retry"] == "false"


def test_a_client_with_its_share_of_websockets_is_refused_and_another_is_not(
    shared: Server, first: httpx.Client
) -> None:
    with ExitStack() as opened:
        for _ in range(MAX_WEBSOCKETS // 2):
            opened.enter_context(connected(shared.url))
        with pytest.raises(InvalidStatus) as caught, connected(shared.url):
            pass
        response = answer_of(caught.value)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (429, "too_many_websockets_of_client")
        assert ONE_SENTENCE.fullmatch(error["message"])
        with connected(shared.url, source_address=(SECOND_ADDRESS, 0)) as other:
            assert other.paint(type="generate").order[-1] == "done"
    wait_for_metrics(first, lambda now: now.of("websocket_connections") == 0)
    with connected(shared.url) as websocket:
        assert websocket.paint(type="generate").order[-1] == "done"


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
def impatient_client(impatient: tuple[str, EngineClient]) -> Iterator[httpx.Client]:
    """No job is left after a test."""
    with httpx.Client(base_url=impatient[0], timeout=PATIENCE) as impatient_client:
        yield impatient_client
    wait_until_no_jobs(impatient[1])


def test_a_request_times_out_and_is_not_to_be_sent_again(impatient_client: httpx.Client) -> None:
    response = impatient_client.post(URL, json={"n": LONG})
    assert (response.status_code, response.json()["error"]) == (504, ERROR)
    assert response.headers["x-should-retry"] == "false"
    assert Metrics(impatient_client).of("errors_total", code="request_timeout") >= 1


def test_a_stream_times_out(impatient_client: httpx.Client) -> None:
    with impatient_client.stream("POST", URL, json={"n": LONG, "stream": True, "partial_images": 3}) as response:
        assert response.status_code == 200
        assert read(response.iter_lines())[-1] == {"error": ERROR}


def test_a_websocket_job_times_out_without_its_connection(impatient_client: httpx.Client) -> None:
    with connected(str(impatient_client.base_url).rstrip("/")) as websocket:
        job = websocket.paint(type="generate", id="long", n=LONG)
        assert job.messages[-1] == {"type": "error", "id": "long", "error": ERROR}
        assert websocket.paint(type="generate", id="wrong", n=0).messages[-1]["error"]["code"] == "invalid_value"


def test_a_stream_that_is_not_read_times_out(impatient: tuple[str, EngineClient]) -> None:
    url, engine = impatient
    with slow_stream(url, n=LONG):
        wait_for(lambda: engine.jobs, "a job")
        wait_until_no_jobs(engine)
