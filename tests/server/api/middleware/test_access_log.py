"""The log of a real server: one line per request and job, in both formats, without any key."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.commands import refused
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.routes import GENERATIONS
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.shared_servers import GUARDED_SLOTS, KEY, LONG, bearer
from tests.support.server.sockets import open_connection, post_request
from tests.support.server.websocket_client import STREAM, connected
from tests.support.waiting import wait_for


@pytest.fixture
def client(guarded_server: Server) -> Iterator[httpx.Client]:
    with guarded_server.client(headers=bearer(KEY)) as client:
        yield client


def line_of(server: Server, request: str, event: str = "request", **fields: object) -> dict[str, Any]:
    """The one line of that event about that request, once it is there, which has these fields; each line is JSON."""

    def found() -> list[dict[str, Any]]:
        lines = map(json.loads, server.log)
        return [line for line in lines if (line["event"], line.get("request_id")) == (event, request)]

    (line,) = wait_for(found, f"the log line of request {request}")
    assert fields.items() <= line.items()
    return line


def test_a_request_or_stream_is_logged_in_one_line(guarded_server: Server, client: httpx.Client) -> None:
    answer = client.post(GENERATIONS, json={"n": 3, "seed": 7}, headers={"x-request-id": "painted"})
    fields = {"method": "POST", "path": GENERATIONS, "status": 200, "images": 3, "ended": "answered"}
    more = {"logger": "scanline.requests", "level": "info", "model": "grey", "seed": 7, "bytes": len(answer.content)}
    line = line_of(guarded_server, "painted", **fields, **more)
    assert 0 <= line["queued"] < line["seconds"] < PATIENCE
    streamed = {"n": 3, "stream": True, "partial_images": 2}
    client.post(GENERATIONS, json=streamed, headers={"x-request-id": "streamed"})
    line_of(guarded_server, "streamed", **fields)


def test_a_disconnect_a_full_queue_and_a_refusal_have_their_code(guarded_server: Server, client: httpx.Client) -> None:
    with open_connection(guarded_server) as connection:
        connection.sendall(post_request(GENERATIONS, {"n": LONG}, **bearer(KEY), x_request_id="crowd"))
        wait_for_metrics(client, lambda now: now.of("num_images_running") == GUARDED_SLOTS)
        client.post(GENERATIONS, json={"n": LONG}, headers={"x-request-id": "crowded"})
    line_of(guarded_server, "crowd", ended="disconnected", images=LONG, error="client_gone")
    line_of(guarded_server, "crowded", status=429, model="grey", images=LONG, error="queue_full")
    client.post(GENERATIONS, json={"n": 0}, headers={"x-request-id": "refused"})
    line_of(guarded_server, "refused", status=400, error="invalid_value")


def test_a_path_is_logged_as_the_pattern_of_its_route(guarded_server: Server, client: httpx.Client) -> None:
    client.get("/v1/models/sk-in-the-wrong-place", headers={"x-request-id": "model"})
    line_of(guarded_server, "model", path="/v1/models/{name:path}")
    client.get("/sk-in-the-wrong-place?key=sk-in-the-wrong-place", headers={"x-request-id": "nowhere"})
    line_of(guarded_server, "nowhere", path="other")
    for path, logged in (("/v1/images/edits",) * 2, ("/v1/models/sk-in-the-wrong-place", "other")):
        assert httpx.get(guarded_server.url + path, headers={"x-request-id": f"keyless{len(path)}"}).status_code == 401
        line_of(guarded_server, f"keyless{len(path)}", path=logged)
    assert "wrong-place" not in "".join(guarded_server.log)


def test_a_websocket_and_each_of_its_jobs_are_logged(guarded_server: Server) -> None:
    headers = {**bearer(KEY), "x-request-id": "socket"}
    with connected(guarded_server.url, additional_headers=headers) as websocket:
        assert websocket.paint(type="generate", n=2, seed=5).order[-1] == "done"
        job = {"type": "generate", "job": 0, "model": "grey", "images": 2, "seed": 5, "bytes": 2 * 35, "ended": "done"}
        line_of(guarded_server, "socket", "job", **job)
    line = line_of(guarded_server, "socket", method="WEBSOCKET", path=STREAM, status=101, ended="closed 1000")
    assert "seed" not in line


@pytest.mark.parametrize(("sent", "ended"), [({"model": "white"}, "failed"), ({"n": LONG}, "disconnected")])
def test_failed_and_abandoned_jobs_are_logged_as_such(guarded_server: Server, sent: dict, ended: str) -> None:
    with connected(guarded_server.url, additional_headers={**bearer(KEY), "x-request-id": ended}) as websocket:
        websocket.send(type="generate", **sent)
        websocket.receive()
    line_of(guarded_server, ended, "job", ended=ended)


def test_probes_are_debug_lines_and_engines_have_the_same_format(guarded_server: Server, client: httpx.Client) -> None:
    client.get("/healthz", headers={"x-request-id": "probe"})
    line_of(guarded_server, "probe", level="debug")
    of_engine = [line for line in map(json.loads, guarded_server.log) if line["logger"] == "scanline.engine"]
    assert any("slots" in line["event"] for line in of_engine)


def test_the_console_format_is_plain_text(server: Server) -> None:
    httpx.get(f"{server.url}/healthz", headers={"x-request-id": "a-probe"}, timeout=PATIENCE)
    httpx.post(server.url + GENERATIONS, json={"seed": 7}, headers={"x-request-id": "readable"}, timeout=PATIENCE)
    line = wait_for(lambda: next((line for line in server.log if "request_id=readable" in line), ""), "a line")
    assert [part for part in ("[info", "seed=7", "status=200") if part not in line] == []
    assert "\x1b" not in line
    assert "a-probe" not in "".join(server.log)


@pytest.mark.parametrize("option", ["--log-format", "--log-level"])
def test_an_unknown_choice_is_refused(option: str) -> None:
    assert refused("serve", option, "loud").startswith(f"{option}: ")
