"""GET /metrics of a real server: what really happened, under Prometheus' names."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from scanline.server.app import build
from scanline.server.registry import served_models
from scanline.server.settings import Settings
from tests.support.patience import PATIENCE, wait_for
from tests.support.pictures import encode, noise, text
from tests.support.running_server import Server, serve
from tests.support.websocket_client import connected

SLOTS = 4
FULL = 100_000  # images: minutes of work
URL = "/v1/images/generations"
PICTURE = text(encode(noise(7, 5)))


@pytest.fixture(scope="module")
def counting(grey_directory: Path) -> Iterator[Server]:
    """Few slots, and a queue as long as the longest request."""
    options = {"slots": SLOTS, "max-waiting-images": FULL - SLOTS, "max-images-per-request": FULL}
    with serve(grey_directory, *(f"--{name}={value}" for name, value in options.items())) as server:
        yield server


@pytest.fixture
def client(counting: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=counting.url, timeout=PATIENCE) as client:
        yield client


class Numbers:
    """All samples of one scrape."""

    def __init__(self, client: httpx.Client | TestClient) -> None:
        families = text_string_to_metric_families(client.get("/metrics").text)
        self.samples = [sample for family in families for sample in family.samples]

    def of(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that have those labels; there must be one."""
        named = [sample for sample in self.samples if sample.name == f"scanline_{name}"]
        found = [sample.value for sample in named if labels.items() <= sample.labels.items()]
        assert found, (name, labels)
        return sum(found)


def until(client: httpx.Client, true: Callable[[Numbers], bool]) -> Numbers:
    """Scrapes until something is true."""

    def found() -> Numbers | None:
        numbers = Numbers(client)
        return numbers if true(numbers) else None

    return wait_for(found, "numbers of which something is true")


@contextmanager
def busy(server: Server) -> Iterator[None]:
    """A client that waits for as many images as there is room for, until it departs."""
    address = httpx.URL(server.url)
    body = b'{"n": %d}' % FULL
    head = f"POST {URL} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with (
        socket.create_connection((address.host, address.port)) as connection,
        httpx.Client(base_url=server.url) as other,
    ):
        connection.sendall(head.encode() + body)
        until(other, lambda now: now.of("num_images_running") == SLOTS)
        yield


@pytest.fixture
def before(client: httpx.Client) -> Numbers:
    """Nothing is in work."""
    return until(client, lambda now: now.of("num_images_reserved") == now.of("num_images_running") == 0)


def test_prometheus_can_read_it(client: httpx.Client) -> None:
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert {sample.name.partition("_")[0] for sample in Numbers(client).samples} == {"scanline", "process"}


def test_openmetrics_is_told_where_it_is_asked_for(client: httpx.Client) -> None:
    told = client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert "scanline_images" in {family.name for family in open_metrics(told.text)}


def test_it_tells_what_paints(client: httpx.Client) -> None:
    labels = {"model_name": "grey", "device": "cpu", "precision": "exact", "size": "5x7"}
    assert Numbers(client).of("model_info", **labels) == 1


def test_an_idle_server_has_free_slots(before: Numbers) -> None:
    assert (before.of("batch_slots"), before.of("batch_slot_usage_ratio")) == (SLOTS, 0)


def test_a_finished_request_is_counted_once(client: httpx.Client, before: Numbers) -> None:
    client.post(URL, json={"n": 9})
    labels = {"operation": "paint", "finished_reason": "finished"}
    now = Numbers(client)
    assert now.of("request_success_total", **labels) == before.of("request_success_total", **labels) + 1
    assert now.of("images_total", **labels) == before.of("images_total", **labels) + 9


def test_every_byte_is_counted_once(client: httpx.Client, before: Numbers) -> None:
    client.post(URL, json={"n": 9})
    assert Numbers(client).of("generation_tokens_total") == before.of("generation_tokens_total") + 9 * 35


def test_known_bytes_are_told_apart(client: httpx.Client, before: Numbers) -> None:
    assert client.post("/v1/images/edits", json={"image": PICTURE, "keep_rows": 3, "n": 2}).status_code == 200
    now = Numbers(client)
    assert now.of("prompt_tokens_total") == before.of("prompt_tokens_total") + 2 * 15
    assert now.of("generation_tokens_total") == before.of("generation_tokens_total") + 2 * 20


def test_scored_images_are_told_apart(client: httpx.Client, before: Numbers) -> None:
    assert client.post("/v1/images/likelihoods", json={"image": [PICTURE] * 3}).status_code == 200
    labels = {"operation": "score", "finished_reason": "finished"}
    assert Numbers(client).of("images_total", **labels) == before.of("images_total", **labels) + 3


@pytest.mark.parametrize(
    "name", ["request_queue_time_seconds", "time_to_first_token_seconds", "e2e_request_latency_seconds"]
)
def test_a_request_has_each_duration_once(client: httpx.Client, before: Numbers, name: str) -> None:
    client.post(URL, json={"n": 9})
    now = Numbers(client)
    assert now.of(f"{name}_count") == before.of(f"{name}_count") + 1
    assert now.of(f"{name}_bucket", le="+Inf") == before.of(f"{name}_bucket", le="+Inf") + 1
    assert now.of(f"{name}_sum") > before.of(f"{name}_sum")


def test_every_step_has_a_duration_and_a_batch(client: httpx.Client, before: Numbers) -> None:
    client.post(URL, json={"n": 9})
    now = Numbers(client)
    steps = now.of("engine_steps_total")
    assert steps > before.of("engine_steps_total")
    assert now.of("engine_step_duration_seconds_count") == now.of("engine_step_batch_size_count") == steps


def test_work_is_told_while_it_lasts(counting: Server, client: httpx.Client, before: Numbers) -> None:
    with busy(counting):
        now = Numbers(client)
    assert (now.of("num_requests_running"), now.of("batch_slot_usage_ratio")) == (1, 1)
    assert 0 < now.of("num_images_waiting") < FULL


def test_a_departed_client_is_counted_as_cancelled(counting: Server, client: httpx.Client, before: Numbers) -> None:
    with busy(counting):
        pass
    labels = {"operation": "paint", "finished_reason": "cancelled"}
    expected = before.of("request_success_total", **labels) + 1
    until(client, lambda now: now.of("request_success_total", **labels) == expected)


def test_nothing_of_a_departed_client_stays_in_work(counting: Server, client: httpx.Client, before: Numbers) -> None:
    with busy(counting):
        pass
    names = [f"num_{what}_{where}" for what in ("requests", "images") for where in ("running", "waiting")]
    until(client, lambda now: [now.of(name) for name in names] == [0, 0, 0, 0])


def test_a_full_queues_refusal_is_counted(counting: Server, client: httpx.Client, before: Numbers) -> None:
    with busy(counting):
        assert client.post(URL, json={}).status_code == 429
    rejected = Numbers(client).of("requests_rejected_total", reason="queue_full")
    assert rejected == before.of("requests_rejected_total", reason="queue_full") + 1


def test_answers_are_counted_by_the_routes_own_path(client: httpx.Client) -> None:
    client.get("/v1/models/anything")
    labels = {"method": "GET", "path": "/v1/models/{name:path}", "status": "404"}
    assert Numbers(client).of("http_requests_total", **labels) > 0


def test_addresses_and_methods_of_others_invention_share_a_name(client: httpx.Client) -> None:
    for number in range(3):
        client.request("PROPFIND", f"/nothing/{number}")
    told = {(s.labels["method"], s.labels["path"]) for s in Numbers(client).samples if "http_requests" in s.name}
    assert ("other", "other") in told
    assert not [path for _, path in told if "nothing" in path]


def test_a_body_that_is_too_large_is_counted(client: httpx.Client) -> None:
    client.post(URL, content=b" " * 17_000_000, headers={"content-type": "application/json"})
    assert Numbers(client).of("http_requests_total", status="413") > 0


def test_open_websockets_are_counted(counting: Server, client: httpx.Client) -> None:
    until(client, lambda now: now.of("websocket_connections") == 0)
    with connected(counting.url), connected(counting.url):
        assert Numbers(client).of("websocket_connections") == 2
    until(client, lambda now: now.of("websocket_connections") == 0)


def test_applications_in_one_process_count_apart(grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),))
    first, second = (TestClient(build(settings, served_models(settings))) for _ in range(2))
    assert first.post(URL, json={}).status_code == 503  # its engine has not been started
    assert Numbers(first).of("requests_rejected_total", reason="not_ready") == 1
    assert Numbers(second).of("requests_rejected_total", reason="not_ready") == 0


def test_errors_are_counted_by_their_code(counting: Server, client: httpx.Client) -> None:
    client.get("/nowhere")
    client.post(URL, json={"model": "white"})
    with connected(counting.url) as painter:
        painter.paint(type="generate", n=0)
        before = Numbers(client)
        painter.paint(type="generate", n=0)
    assert before.of("errors_total", code="not_found") > 0
    assert before.of("errors_total", code="model_not_found") > 0
    assert (
        Numbers(client).of("errors_total", code="invalid_value") == before.of("errors_total", code="invalid_value") + 1
    )
