"""OpenTelemetry traces of a real server, as a collector receives them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from scanline.model.extras import MissingExtraError
from scanline.server.api import tracing
from tests.support.commands import refused
from tests.support.pictures import encode, noise, text
from tests.support.server.infrastructure.otel_collector import Collector, attributes, collecting
from tests.support.server.running_server import Server, serve
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE

URL = "/v1/images/generations"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
Traced = tuple[Server, Collector]


@pytest.fixture(scope="module")
def traced(grey_directory: Path) -> Iterator[Traced]:
    with pytest.MonkeyPatch.context() as patch, collecting() as (url, collector):
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds between two exports
        with serve(grey_directory, "--slots", "4", "--otlp-endpoint", url) as server:
            yield server, collector


def spans_of(collector: Collector, request: str, count: int = 1) -> list[Span]:
    """The spans with that request id, once there are `count` of them."""
    return collector.wait_for(lambda span: attributes(span).get("scanline.request_id") == request, count)


def children_of(collector: Collector, span: Span, count: int) -> dict[str, Span]:
    """The children of a span by name, once there are `count` of them."""
    return {child.name: child for child in collector.wait_for(lambda one: one.parent_span_id == span.span_id, count)}


def test_a_request_is_a_span_with_the_fields_of_its_log_line(traced: Traced) -> None:
    server, collector = traced
    headers = {"x-request-id": "painted"}
    httpx.post(f"{server.url}{URL}", json={"n": 3, "seed": 7}, headers=headers, timeout=PATIENCE)
    httpx.get(f"{server.url}/readyz", headers={"x-request-id": "probed"}, timeout=PATIENCE)
    httpx.get(f"{server.url}/v1/models", headers={"x-request-id": "listed"}, timeout=PATIENCE)
    spans_of(collector, "listed")  # after which the probe's span would be there
    assert not [span for span in collector.spans if attributes(span).get("scanline.request_id") == "probed"]
    (span,) = spans_of(collector, "painted")
    assert (span.name, span.kind) == (f"POST {URL}", Span.SPAN_KIND_SERVER)
    fields = attributes(span)
    names = ("http.request.method", "http.route", "http.response.status_code", "url.path", "url.scheme")
    assert [fields[name] for name in names] == ["POST", URL, 200, URL, "http"]
    assert (fields["scanline.model"], fields["scanline.images"], fields["scanline.seed"]) == ("grey", 3, 7)
    assert collector.services == {"scanline"}


@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["plain", "streamed"])
def test_a_span_contains_queueing_and_painting_in_that_order(traced: Traced, fields: dict[str, object]) -> None:
    server, collector = traced
    name = f"phases-{len(fields)}"
    httpx.post(f"{server.url}{URL}", json={"n": 9, **fields}, headers={"x-request-id": name}, timeout=PATIENCE)
    (span,) = spans_of(collector, name)
    children = children_of(collector, span, 2)
    queue, paint = children["queue"], children["paint"]
    assert span.start_time_unix_nano <= queue.start_time_unix_nano <= queue.end_time_unix_nano
    assert queue.end_time_unix_nano == paint.start_time_unix_nano < paint.end_time_unix_nano
    assert paint.end_time_unix_nano <= span.end_time_unix_nano
    assert attributes(paint) == {"scanline.images": 9, "scanline.images_left": 0}


def test_scoring_has_one_phase_and_each_websocket_job_its_own_span(traced: Traced) -> None:
    server, collector = traced
    headers = {"x-request-id": "scored"}
    fields = {"image": text(encode(noise(7, 5)))}
    httpx.post(f"{server.url}/v1/images/likelihoods", json=fields, headers=headers, timeout=PATIENCE)
    (span,) = spans_of(collector, "scored")
    assert set(children_of(collector, span, 1)) == {"score"}
    with connected(server.url, additional_headers={"x-request-id": "socket"}) as websocket:
        for seed in (5, 6):
            websocket.paint(type="generate", n=2, seed=seed)
    spans = spans_of(collector, "socket", 3)
    (connection,) = [span for span in spans if span.name == "WEBSOCKET /v1/images/stream"]
    jobs = [span for span in spans if span.name == "websocket job"]
    assert {attributes(job)["scanline.seed"] for job in jobs} == {5, 6}
    for job in jobs:
        assert job.parent_span_id == connection.span_id
        assert set(children_of(collector, job, 2)) == {"queue", "paint"}


def test_a_request_continues_the_trace_of_its_client_and_a_refused_one_has_its_code(traced: Traced) -> None:
    server, collector = traced
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "called"}
    httpx.post(f"{server.url}{URL}", json={}, headers=headers, timeout=PATIENCE)
    (span,) = spans_of(collector, "called")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    httpx.post(f"{server.url}{URL}", json={"n": 0}, headers={"x-request-id": "refused"}, timeout=PATIENCE)
    fields = attributes(spans_of(collector, "refused")[0])
    assert (fields["http.response.status_code"], fields["scanline.error"]) == (400, "invalid_value")


def test_pending_spans_are_sent_when_the_server_exits(grey_directory: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, collecting() as (url, collector):
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        patch.setenv("OTEL_SERVICE_NAME", "painter")
        with serve(grey_directory, "--slots", "4") as server:
            httpx.post(f"{server.url}{URL}", json={}, headers={"x-request-id": "last"}, timeout=PATIENCE)
        assert len(spans_of(collector, "last")) == 1


def test_an_endpoint_that_cannot_be_used_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtraError, match="--otlp-endpoint needs the extra otel"):
        tracing.tracer_provider("http://127.0.0.1:1")
    assert refused("serve", "--otlp-endpoint", "collector:4318").startswith("--otlp-endpoint: ")
    assert tracing.tracer_provider(None) is None
