"""The log of a real server, one line per request and job, without any key; and its
traces, as a collector gets them.
"""

import json
import sys

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from scanline.model.base.extras import MissingExtraError
from scanline.server.api.base import tracing
from tests.support.commands import refused
from tests.support.server.infrastructure.otel_collector import attributes, collecting
from tests.support.server.json_requests import MASKED
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.routes import GENERATIONS, LIKELIHOODS
from tests.support.server.running_server import PATIENCE, client_of, serve
from tests.support.server.shared_servers import GUARDED_SLOTS, KEY, LONG, bearer
from tests.support.server.sockets import open_connection, post_request
from tests.support.server.websocket_client import STREAM, connected
from tests.support.waiting import wait_for

client = client_of("guarded_server", headers=bearer(KEY))


def line_of(server, request, event="request", **fields):
    """The one line of that event about that request, once it is there, which has
    these fields; each line is JSON.
    """

    def found():
        lines = map(json.loads, server.log)
        return [
            line for line in lines if (line["event"], line.get("request_id")) == (event, request)
        ]

    (line,) = wait_for(found, f"the log line of request {request}")
    assert fields.items() <= line.items()
    return line


def test_a_request_or_stream_is_logged_in_one_line(guarded_server, client):
    answer = client.post(GENERATIONS, json={"n": 3, "seed": 7}, headers={"x-request-id": "painted"})
    fields = {
        "method": "POST",
        "path": GENERATIONS,
        "status": 200,
        "images": 3,
        "ended": "answered",
    }
    more = {
        "logger": "scanline.requests",
        "level": "info",
        "model": "grey",
        "seed": 7,
        "bytes": len(answer.content),
    }
    line = line_of(guarded_server, "painted", **fields, **more)
    assert 0 <= line["queued"] < line["seconds"] < PATIENCE
    client.post(
        GENERATIONS,
        json={"n": 3, "stream": True, "partial_images": 2},
        headers={"x-request-id": "streamed"},
    )
    line_of(guarded_server, "streamed", **fields)
    client.post(
        LIKELIHOODS,
        json=MASKED | {"seed": 5, "particles": 1},
        headers={"x-request-id": "estimated"},
    )
    line_of(guarded_server, "estimated", status=200, seed=5)


def test_a_disconnect_a_full_queue_and_a_refusal_have_their_code(guarded_server, client):
    with open_connection(guarded_server) as connection:
        connection.sendall(
            post_request(GENERATIONS, {"n": LONG}, **bearer(KEY), x_request_id="crowd")
        )
        wait_for_metrics(client, lambda now: now.of("num_images_running") == GUARDED_SLOTS)
        client.post(GENERATIONS, json={"n": LONG}, headers={"x-request-id": "crowded"})
    line_of(guarded_server, "crowd", ended="disconnected", images=LONG, error="client_gone")
    line_of(guarded_server, "crowded", status=429, model="grey", images=LONG, error="queue_full")
    client.post(GENERATIONS, json={"n": 0}, headers={"x-request-id": "refused"})
    line_of(guarded_server, "refused", status=400, error="invalid_value")


def test_a_path_is_logged_as_the_pattern_of_its_route(guarded_server, client):
    client.get("/v1/models/sk-in-the-wrong-place", headers={"x-request-id": "model"})
    line_of(guarded_server, "model", path="/v1/models/{name:path}")
    client.get(
        "/sk-in-the-wrong-place?key=sk-in-the-wrong-place", headers={"x-request-id": "nowhere"}
    )
    line_of(guarded_server, "nowhere", path="other")
    for path, logged in (("/v1/images/edits",) * 2, ("/v1/models/sk-in-the-wrong-place", "other")):
        assert (
            httpx.get(
                guarded_server.url + path, headers={"x-request-id": f"keyless{len(path)}"}
            ).status_code
            == 401
        )
        line_of(guarded_server, f"keyless{len(path)}", path=logged)
    assert "wrong-place" not in guarded_server.log_text


def test_a_websocket_and_each_of_its_jobs_are_logged(guarded_server):
    with connected(
        guarded_server.url, additional_headers={**bearer(KEY), "x-request-id": "socket"}
    ) as websocket:
        assert websocket.paint(n=2, seed=5).last == "done"
        job = {
            "type": "generate",
            "job": 0,
            "model": "grey",
            "images": 2,
            "seed": 5,
            "bytes": 2 * 35,
            "ended": "done",
        }
        line_of(guarded_server, "socket", "job", **job)
    line = line_of(
        guarded_server, "socket", method="WEBSOCKET", path=STREAM, status=101, ended="closed 1000"
    )
    assert "seed" not in line


@pytest.mark.parametrize(
    ("sent", "ended"), [({"model": "white"}, "failed"), ({"n": LONG}, "disconnected")]
)
def test_failed_and_abandoned_jobs_are_logged_as_such(guarded_server, sent, ended):
    with connected(
        guarded_server.url, additional_headers={**bearer(KEY), "x-request-id": ended}
    ) as websocket:
        websocket.send(type="generate", **sent)
        websocket.receive()
    line_of(guarded_server, ended, "job", ended=ended)


def test_probes_are_debug_lines_and_engines_have_the_same_format(guarded_server, client):
    client.get("/healthz", headers={"x-request-id": "probe"})
    line_of(guarded_server, "probe", level="debug")
    of_engine = [
        line for line in map(json.loads, guarded_server.log) if line["logger"] == "scanline.engine"
    ]
    assert any("slots" in line["event"] for line in of_engine)


def test_the_console_format_is_plain_text(server):
    httpx.get(f"{server.url}/healthz", headers={"x-request-id": "a-probe"}, timeout=PATIENCE)
    httpx.post(
        server.url + GENERATIONS,
        json={"seed": 7},
        headers={"x-request-id": "readable"},
        timeout=PATIENCE,
    )
    line = wait_for(
        lambda: next((line for line in server.log if "request_id=readable" in line), ""), "a line"
    )
    assert [part for part in ("[info", "seed=7", "status=200") if part not in line] == []
    assert "\x1b" not in line
    assert "a-probe" not in server.log_text


TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture(scope="module")
def traced(grey_directory):
    with pytest.MonkeyPatch.context() as patch, collecting() as (url, collector):
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds between two exports
        with serve(grey_directory, "--slots", "4", "--otlp-endpoint", url) as server:
            yield server, collector


def spans_of(collector, request, count=1):
    """The spans with that request id, once there are `count` of them."""
    return collector.wait_for(
        lambda span: attributes(span).get("scanline.request_id") == request, count
    )


def span_of(traced, request, url=GENERATIONS, fields=None, **headers):
    with traced[0].client(headers={"x-request-id": request, **headers}) as client:
        client.request("GET" if fields is None else "POST", url, json=fields)
    return spans_of(traced[1], request)[0]


def children_of(collector, span, count):
    return {
        child.name: child
        for child in collector.wait_for(lambda one: one.parent_span_id == span.span_id, count)
    }


def test_a_request_is_a_span_with_the_fields_of_its_log_line_and_a_probe_is_none(traced):
    server, collector = traced
    span = span_of(traced, "painted", fields={"n": 3, "seed": 7})
    httpx.get(f"{server.url}/readyz", headers={"x-request-id": "probed"})
    span_of(traced, "listed", "/v1/models")  # after which the probe's span would be there
    assert "probed" not in [attributes(one).get("scanline.request_id") for one in collector.spans]
    assert (span.name, span.kind) == (f"POST {GENERATIONS}", Span.SPAN_KIND_SERVER)
    expected = {
        "http.request.method": "POST",
        "http.route": GENERATIONS,
        "http.response.status_code": 200,
    }
    expected |= {"url.path": GENERATIONS, "url.scheme": "http"}
    expected |= {"scanline.model": "grey", "scanline.images": 3, "scanline.seed": 7}
    assert expected.items() <= attributes(span).items()
    assert collector.services == {"scanline"}


@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["plain", "streamed"])
def test_a_span_contains_queueing_and_painting_in_that_order(traced, fields):
    span = span_of(traced, f"phases-{len(fields)}", fields={"n": 9, **fields})
    children = children_of(traced[1], span, 2)
    queue = children["queue"]
    paint = children["paint"]
    assert span.start_time_unix_nano <= queue.start_time_unix_nano <= queue.end_time_unix_nano
    assert queue.end_time_unix_nano == paint.start_time_unix_nano < paint.end_time_unix_nano
    assert paint.end_time_unix_nano <= span.end_time_unix_nano
    assert attributes(paint) == {"scanline.images": 9, "scanline.images_left": 0}


def test_scoring_has_one_phase_and_each_websocket_job_its_own_span(traced):
    server, collector = traced
    span = span_of(traced, "scored", LIKELIHOODS, {"image": MASKED["image"]})
    assert set(children_of(collector, span, 1)) == {"score"}
    with connected(server.url, additional_headers={"x-request-id": "socket"}) as websocket:
        for seed in (5, 6):
            websocket.paint(n=2, seed=seed)
    spans = spans_of(collector, "socket", 3)
    (connection,) = [span for span in spans if span.name == f"WEBSOCKET {STREAM}"]
    jobs = [span for span in spans if span.name == "websocket job"]
    assert {attributes(job)["scanline.seed"] for job in jobs} == {5, 6}
    for job in jobs:
        assert job.parent_span_id == connection.span_id
        assert set(children_of(collector, job, 2)) == {"queue", "paint"}


def test_a_request_continues_the_trace_of_its_client_and_a_refused_one_has_its_code(traced):
    span = span_of(traced, "called", fields={}, traceparent=f"00-{TRACE}-{PARENT}-01")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    fields = attributes(span_of(traced, "refused", fields={"n": 0}))
    assert (fields["http.response.status_code"], fields["scanline.error"]) == (400, "invalid_value")


def test_pending_spans_are_sent_when_the_server_exits(grey_directory):
    with pytest.MonkeyPatch.context() as patch, collecting() as (url, collector):
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        patch.setenv("OTEL_SERVICE_NAME", "painter")
        with (
            serve(grey_directory, "--slots", "4") as server,
            server.client(headers={"x-request-id": "last"}) as client,
        ):
            client.post(GENERATIONS, json={})
        assert len(spans_of(collector, "last")) == 1


def test_an_endpoint_that_cannot_be_used_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtraError, match="--otlp-endpoint needs the extra otel"):
        tracing.tracer_provider("http://127.0.0.1:1")
    assert refused("serve", "--otlp-endpoint", "collector:4318").startswith("--otlp-endpoint: ")
    assert tracing.tracer_provider(None) is None
