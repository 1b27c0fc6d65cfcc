"""The log of a real server: one line per request and job, in both formats, without any key."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.commands import refused
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.shared_servers import GUARDED_SLOTS, KEY, LONG, bearer
from tests.support.server.sockets import open_connection, post_request
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

URL = "/v1/images/generations"
Line = dict[str, Any]


@pytest.fixture
def client(guarded_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded_server.url, headers=bearer(KEY), timeout=PATIENCE) as client:
        yield client


def line_of(server: Server, request: str, event: str = "request") -> Line:
    """The one line of that event about that request, once it is there; each line must be JSON."""

    def found() -> list[Line]:
        lines = map(json.loads, server.log)
        return [line for line in lines if (line["event"], line.get("request_id")) == (event, request)]

    (line,) = wait_for(found, f"the log line of request {request}")
    return line


def test_a_request_or_stream_is_logged_in_one_line(guarded_server: Server, client: httpx.Client) -> None:
    answer = client.post(URL, json={"n": 3, "seed": 7}, headers={"x-request-id": "painted"})
    line = line_of(guarded_server, "painted")
    assert {"logger": "scanline.requests", "level": "info"}.items() <= line.items()
    assert {"method": "POST", "path": URL, "status": 200, "ended": "answered"}.items() <= line.items()
    assert {"model": "grey", "images": 3, "seed": 7, "bytes": len(answer.content)}.items() <= line.items()
    assert 0 <= line["queued"] < line["seconds"] < PATIENCE
    client.post(URL, json={"n": 3, "stream": True, "partial_images": 2}, headers={"x-request-id": "streamed"})
    line = line_of(guarded_server, "streamed")
    assert (line["status"], line["images"], line["ended"]) == (200, 3, "answered")


def test_a_disconnect_a_full_queue_and_a_refusal_are_logged_with_their_code(
    guarded_server: Server, client: httpx.Client
) -> None:
    with open_connection(guarded_server) as connection:
        connection.sendall(post_request(URL, {"n": LONG}, authorization=f"Bearer {KEY}", x_request_id="crowd"))
        wait_for_metrics(client, lambda now: now.of("num_images_running") == GUARDED_SLOTS)
        client.post(URL, json={"n": LONG}, headers={"x-request-id": "crowded"})
    line = line_of(guarded_server, "crowd")
    assert (line["ended"], line["images"], line["error"]) == ("disconnected", LONG, "client_gone")
    line = line_of(guarded_server, "crowded")
    assert (line["status"], line["model"], line["images"], line["error"]) == (429, "grey", LONG, "queue_full")
    client.post(URL, json={"n": 0}, headers={"x-request-id": "refused"})
    line = line_of(guarded_server, "refused")
    assert (line["status"], line["error"]) == (400, "invalid_value")


def test_a_path_is_logged_as_the_pattern_of_its_route(guarded_server: Server, client: httpx.Client) -> None:
    client.get("/v1/models/sk-in-the-wrong-place", headers={"x-request-id": "model"})
    assert line_of(guarded_server, "model")["path"] == "/v1/models/{name:path}"
    client.get("/sk-in-the-wrong-place?key=sk-in-the-wrong-place", headers={"x-request-id": "nowhere"})
    assert line_of(guarded_server, "nowhere")["path"] == "other"
    for path, logged in ((URL, URL), ("/v1/models/sk-in-the-wrong-place", "other")):
        assert httpx.get(guarded_server.url + path, headers={"x-request-id": f"keyless{len(path)}"}).status_code == 401
        assert line_of(guarded_server, f"keyless{len(path)}")["path"] == logged
    assert "wrong-place" not in "".join(guarded_server.log)


def test_a_websocket_and_each_of_its_jobs_are_logged(guarded_server: Server) -> None:
    headers = {**bearer(KEY), "x-request-id": "socket"}
    with connected(guarded_server.url, additional_headers=headers) as websocket:
        assert websocket.paint(type="generate", n=2, seed=5).order[-1] == "done"
        line = line_of(guarded_server, "socket", "job")
        assert {"type": "generate", "job": 0, "model": "grey", "images": 2, "seed": 5}.items() <= line.items()
        assert (line["bytes"], line["ended"]) == (2 * 35, "done")
    line = line_of(guarded_server, "socket")
    assert {"method": "WEBSOCKET", "path": "/v1/images/stream", "status": 101}.items() <= line.items()
    assert line["ended"] == "closed 1000"
    assert "seed" not in line


def test_failed_and_abandoned_jobs_are_logged_as_such(guarded_server: Server) -> None:
    for name, sent, ended in [("bad", {"model": "white"}, "failed"), ("gone", {"n": LONG}, "disconnected")]:
        headers = {**bearer(KEY), "x-request-id": name}
        with connected(guarded_server.url, additional_headers=headers) as websocket:
            websocket.send(type="generate", **sent)
            websocket.receive()
        assert line_of(guarded_server, name, "job")["ended"] == ended


def test_probes_are_logged_at_debug_level_and_the_engine_in_the_same_format(
    guarded_server: Server, client: httpx.Client
) -> None:
    client.get("/healthz", headers={"x-request-id": "probe"})
    assert line_of(guarded_server, "probe")["level"] == "debug"
    of_engine = [line for line in map(json.loads, guarded_server.log) if line["logger"] == "scanline.engine"]
    assert any("slots" in line["event"] for line in of_engine)


def test_the_console_format_is_plain_text(server: Server) -> None:
    httpx.get(f"{server.url}/healthz", headers={"x-request-id": "a-probe"}, timeout=PATIENCE)
    httpx.post(f"{server.url}{URL}", json={"seed": 7}, headers={"x-request-id": "readable"}, timeout=PATIENCE)
    line = wait_for(lambda: next((line for line in server.log if "request_id=readable" in line), ""), "a line")
    assert "[info" in line
    assert "seed=7" in line
    assert "status=200" in line
    assert "\x1b" not in line
    assert "a-probe" not in "".join(server.log)


@pytest.mark.parametrize("option", ["--log-format", "--log-level"])
def test_an_unknown_choice_is_refused(option: str) -> None:
    assert refused("serve", option, "loud").startswith(f"{option}: ")
