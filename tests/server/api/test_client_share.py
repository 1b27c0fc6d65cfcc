"""One client never has the whole queue or all websockets: each has a share, and the others get what they need."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.server.error_answers import ONE_SENTENCE, answer_of, assert_refused
from tests.support.server.metrics_reader import Metrics, wait_for_metrics
from tests.support.server.running_server import PATIENCE, Server, serve
from tests.support.server.shared_servers import LONG, NO_DEADLINE, arguments
from tests.support.server.websocket_client import connected

URL = "/v1/images/generations"
SLOTS, MAX_WEBSOCKETS = 4, 4
MORE = 10_000  # images: as many are not painted in the moments between two requests
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
