"""The log of a real server: a line for each request and each job, in both formats, and never a key."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.api.test_queue import post
from tests.support.commands import scanline
from tests.support.patience import PATIENCE, wait_for
from tests.support.running_server import Server, serve
from tests.support.websocket_client import connected

KEY = "sk-never-to-be-read"
URL = "/v1/images/generations"
LONG = 100_000  # images: minutes of work
OPTIONS = ("--slots", "4", "--api-key", KEY, "--max-images-per-request", str(LONG), "--max-waiting-images", str(LONG))
Line = dict[str, Any]


@pytest.fixture(scope="module")
def told(grey_directory: Path) -> Iterator[Server]:
    """A server that tells everything, as JSON."""
    with serve(grey_directory, *OPTIONS, "--log-format", "json", "--log-level", "debug") as server:
        yield server


@pytest.fixture
def client(told: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=told.url, headers={"authorization": f"Bearer {KEY}"}, timeout=PATIENCE) as client:
        yield client


def line_of(server: Server, request: str, event: str = "request") -> Line:
    """The one line of that event about that request, once it is there."""
    return until(
        lambda: [line for line in lines(server) if (line["event"], line.get("request_id")) == (event, request)]
    )


def lines(server: Server) -> list[Line]:
    """All lines so far; each must be JSON."""
    return [json.loads(line) for line in server.log]


def until(found: Callable[[], list[Line]]) -> Line:
    (line,) = wait_for(found, "a line")
    return line


def test_a_request_has_one_line_that_tells_what_it_was(told: Server, client: httpx.Client) -> None:
    answer = client.post(URL, json={"n": 3, "seed": 7}, headers={"x-request-id": "painted"})
    line = line_of(told, "painted")
    assert {"logger": "scanline.requests", "level": "info"}.items() <= line.items()
    assert {"method": "POST", "path": URL, "status": 200, "ended": "answered"}.items() <= line.items()
    assert {"model": "grey", "images": 3, "seed": 7, "bytes": len(answer.content)}.items() <= line.items()
    assert 0 <= line["queued"] < line["seconds"] < PATIENCE


def test_a_refusal_tells_its_code(told: Server, client: httpx.Client) -> None:
    client.post(URL, json={"n": 0}, headers={"x-request-id": "refused"})
    line = line_of(told, "refused")
    assert (line["status"], line["error"]) == (400, "invalid_value")


def test_who_finds_no_room_is_told_with_the_model_that_had_none(told: Server, client: httpx.Client) -> None:
    with closing(post(told, b'{"n": %d}' % LONG, f"authorization: Bearer {KEY}\r\n")):
        running(client, 4)
        client.post(URL, json={"n": LONG}, headers={"x-request-id": "crowded"})
    line = line_of(told, "crowded")
    assert (line["status"], line["model"], line["images"], line["error"]) == (429, "grey", LONG, "queue_full")


def test_a_path_is_told_as_the_route_has_it(told: Server, client: httpx.Client) -> None:
    client.get("/v1/models/sk-in-the-wrong-place", headers={"x-request-id": "model"})
    assert line_of(told, "model")["path"] == "/v1/models/{name:path}"
    client.get("/sk-in-the-wrong-place?key=sk-in-the-wrong-place", headers={"x-request-id": "nowhere"})
    assert line_of(told, "nowhere")["path"] == "other"
    assert "wrong-place" not in "".join(told.log)


def test_a_stream_has_one_line(told: Server, client: httpx.Client) -> None:
    client.post(URL, json={"n": 3, "stream": True, "partial_images": 2}, headers={"x-request-id": "streamed"})
    line = line_of(told, "streamed")
    assert (line["status"], line["images"], line["ended"]) == (200, 3, "answered")


def test_a_departed_client_is_told_so(told: Server) -> None:
    extra = f"authorization: Bearer {KEY}\r\nx-request-id: left\r\n"
    with closing(post(told, b'{"n": %d}' % LONG, extra)), httpx.Client(base_url=told.url) as other:
        running(other, 4)
    line = line_of(told, "left")
    assert (line["ended"], line["images"], line["error"]) == ("disconnected", LONG, "client_gone")


def running(client: httpx.Client, images: int) -> None:
    """Waits until so many images are in slots."""
    headers = {"authorization": f"Bearer {KEY}"}
    told = f'num_images_running{{model_name="grey"}} {images}.0'
    wait_for(lambda: told in client.get("/metrics", headers=headers).text, f"{images} images in slots")


def test_each_job_of_a_websocket_has_a_line_and_the_connection_its_own(told: Server) -> None:
    headers = {"authorization": f"Bearer {KEY}", "x-request-id": "socket"}
    with connected(told.url, additional_headers=headers) as painter:
        assert painter.paint(type="generate", n=2, seed=5).order[-1] == "done"
        line = line_of(told, "socket", "job")
        assert {"type": "generate", "job": 0, "model": "grey", "images": 2, "seed": 5}.items() <= line.items()
        assert (line["bytes"], line["ended"]) == (2 * 35, "done")
    line = line_of(told, "socket")
    assert {"method": "WEBSOCKET", "path": "/v1/images/stream", "status": 101}.items() <= line.items()
    assert line["ended"] == "closed 1000"
    assert "seed" not in line


def test_jobs_that_did_not_end_well_tell_how(told: Server) -> None:
    for name, sent, ended in [("bad", {"model": "white"}, "failed"), ("gone", {"n": LONG}, "disconnected")]:
        headers = {"authorization": f"Bearer {KEY}", "x-request-id": name}
        with connected(told.url, additional_headers=headers) as painter:
            painter.send(type="generate", **sent)
            painter.hear()
        assert line_of(told, name, "job")["ended"] == ended


def test_the_engine_writes_in_the_same_format(told: Server) -> None:
    assert [line for line in lines(told) if line["logger"] == "scanline.engine" and "slots" in line["event"]]


def test_no_line_has_a_key(told: Server, client: httpx.Client) -> None:
    client.get("/v1/models", headers={"authorization": f"Bearer {KEY}x", "x-request-id": "stranger"})
    line_of(told, "stranger")
    with connected(told.url, additional_headers={"authorization": f"Bearer {KEY}", "x-request-id": "debugged"}):
        pass
    line_of(told, "debugged")
    assert KEY not in "".join(told.log)


def test_probes_that_go_well_are_told_at_debug(told: Server, client: httpx.Client) -> None:
    client.get("/healthz", headers={"x-request-id": "probe"})
    assert line_of(told, "probe")["level"] == "debug"


def test_a_console_line_is_for_people(server: Server) -> None:
    httpx.get(f"{server.url}/healthz", headers={"x-request-id": "a-probe"}, timeout=PATIENCE)
    httpx.post(f"{server.url}{URL}", json={"seed": 7}, headers={"x-request-id": "a-person"}, timeout=PATIENCE)
    line = wait_for(lambda: next((line for line in server.log if "request_id=a-person" in line), ""), "a line")
    assert "[info" in line
    assert "seed=7" in line
    assert "status=200" in line
    assert "\x1b" not in line
    assert "a-probe" not in "".join(server.log)


@pytest.mark.parametrize("option", ["--log-format", "--log-level"])
def test_an_unknown_choice_is_refused(option: str) -> None:
    ran = scanline("serve", option, "loud")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"scanline: {option}: ")
