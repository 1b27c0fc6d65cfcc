"""GET /metrics of a real server."""

import asyncio
import re

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from scanline.server.api.routes.metrics import Pages
from tests.support.server.json_requests import MASKED, post
from tests.support.server.metrics_reader import Metrics, wait_for_metrics
from tests.support.server.routes import EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.shared_servers import LONG, QUEUE_SLOTS
from tests.support.server.sockets import open_connection, post_request
from tests.support.server.websocket_client import connected

PAINTED = {"operation": "paint", "finished_reason": "finished"}
SCORED = {"operation": "score", "finished_reason": "finished"}
CANCELLED = {"operation": "paint", "finished_reason": "cancelled"}


@pytest.fixture
def client(full_queue_client):
    return full_queue_client


@pytest.fixture
def before(client):
    return Metrics(client)


def test_prometheus_can_read_it(client):
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {sample.name for family in text_format(response.text) for sample in family.samples}
    assert {name.partition("_")[0] for name in samples} == {"scanline", "process"}
    assert {sample.name for sample in Metrics(client).samples} == samples, (
        "our own reader finds the same"
    )
    response = client.get(
        "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert "scanline_images" in {family.name for family in open_metrics(response.text)}


def test_a_finished_request_is_counted_once(client, before):
    assert (
        before.of("model_info", model_name="grey", device="cpu", precision="exact", size="5x7") == 1
    )
    assert (before.of("batch_slots"), before.of("batch_slot_usage_ratio")) == (QUEUE_SLOTS, 0)
    post(client, GENERATIONS, n=9)
    now = Metrics(client)
    changes = [("request_success_total", PAINTED, 1), ("images_total", PAINTED, 9)]
    changes += [("generation_tokens_total", {}, 9 * 35)]
    for name in (
        "request_queue_time_seconds",
        "time_to_first_token_seconds",
        "e2e_request_latency_seconds",
    ):
        changes += [(f"{name}_count", {}, 1), (f"{name}_bucket", {"le": "+Inf"}, 1)]
        assert now.of(f"{name}_sum") > before.of(f"{name}_sum")
    for name, labels, change in changes:
        assert now.of(name, **labels) == before.of(name, **labels) + change, name
    steps = now.of("engine_steps_total")
    assert steps > before.of("engine_steps_total")
    assert (
        now.of("engine_step_duration_seconds_count")
        == now.of("engine_step_batch_size_count")
        == steps
    )


def test_known_bytes_and_scored_images_are_counted_apart(client, before):
    post(client, EDITS, image=MASKED["image"], keep_rows=3, n=2)
    now = Metrics(client)
    assert now.of("prompt_tokens_total") == before.of("prompt_tokens_total") + 2 * 15
    assert now.of("generation_tokens_total") == before.of("generation_tokens_total") + 2 * 20
    post(client, LIKELIHOODS, image=[MASKED["image"]] * 3)
    assert Metrics(client).of("images_total", **SCORED) == before.of("images_total", **SCORED) + 3


def test_work_is_exposed_while_it_lasts(full_queue_server, client, before):
    # until it closes, with as many images as there is room for
    with open_connection(full_queue_server) as connection:
        connection.sendall(post_request(GENERATIONS, {"n": LONG}))
        wait_for_metrics(client, lambda now: now.of("num_images_running") == QUEUE_SLOTS)
        assert client.post(GENERATIONS, json={"n": LONG}).status_code == 429
        now = Metrics(client)
    rejected = "requests_rejected_total"
    assert now.of(rejected, reason="queue_full") == before.of(rejected, reason="queue_full") + 1
    assert (now.of("num_requests_running"), now.of("batch_slot_usage_ratio")) == (1, 1)
    assert 0 < now.of("num_images_waiting") < LONG
    expected = before.of("request_success_total", **CANCELLED) + 1
    wait_for_metrics(client, lambda now: now.of("request_success_total", **CANCELLED) == expected)
    names = [
        f"num_{what}_{where}" for what in ("requests", "images") for where in ("running", "waiting")
    ]
    wait_for_metrics(client, lambda now: [now.of(name) for name in names] == [0, 0, 0, 0])


def test_responses_are_counted_by_route_and_errors_by_code(full_queue_server, client):
    def act():
        client.get("/v1/models/anything")
        for number in range(3):
            client.request("PROPFIND", f"/nothing/{number}")
        client.post(GENERATIONS, json={"model": "white"})
        with connected(full_queue_server.url) as websocket:
            websocket.paint(n=0)
        return Metrics(client)

    # a counter is there once something was counted
    before = act()
    after = act()
    requests = "http_requests_total"
    errors = {"not_found": 3, "model_not_found": 2, "invalid_value": 1}
    for labels, count in (
        ({"method": "GET", "path": "/v1/models/{name:path}", "status": "404"}, 1),
        ({"method": "other", "path": "other"}, 3),
    ):
        assert after.of(requests, **labels) - before.of(requests, **labels) == count
    assert {code: after.errors(code) - before.errors(code) for code in errors} == errors
    assert not [sample for sample in after.samples if "nothing" in sample.labels.get("path", "")]


def test_requests_that_come_together_share_a_page_that_was_begun_after_them():
    async def pages():
        registry = CollectorRegistry()
        requested = Gauge("requested", "Requests so far.", registry=None)
        registry.register(requested)

        async def gather():
            return registry

        async def request(each):
            requested.inc()
            page, _ = await each.page("")
            return float(re.findall(rb"^requested (.*)$", page, re.MULTILINE)[0])

        shared = Pages(gather)
        first = await request(shared)
        shared.next_at = asyncio.get_running_loop().time() + 0.2  # however slow the machine is
        return [
            first,
            *await asyncio.gather(*(request(shared) for _ in range(3))),
            await request(shared),
        ]

    assert asyncio.run(pages()) == [1.0, 4.0, 4.0, 4.0, 5.0]
