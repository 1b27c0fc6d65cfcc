"""A server whose engine is still loading is alive and not ready, and accepts no work.

Loading lasts until a test opens a gate, a pipe.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.engine.engines import behind_gate
from tests.support.pictures import text
from tests.support.server.forked_server import AVAILABLE
from tests.support.server.running_server import Server
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no fork server whose forks can be prepared")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, grey_directory: Path) -> Path:
    """A model without weights, and the gate before they are read."""
    directory = tmp_path_factory.mktemp("models") / "slow"
    directory.mkdir()
    (directory / "config.json").write_bytes((grey_directory / "config.json").read_bytes())
    (directory / "model.safetensors").touch()
    os.mkfifo(directory / "gate")
    return directory


@pytest.fixture(scope="module")
def loading(directory: Path) -> Iterator[Server]:
    server = Server(directory, prepare=partial(behind_gate, directory / "gate"))
    server.wait_until_listening()
    yield server
    server.process.kill()
    server.wait_until_exited()


@pytest.fixture
def client(loading: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=loading.url) as client:
        yield client


def assert_not_ready(response: httpx.Response) -> None:
    __tracebackhide__ = True
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (503, "server_error", "not_ready")
    assert int(response.headers["retry-after"]) > 0


def test_the_server_is_alive_and_not_ready(client: httpx.Client) -> None:
    assert client.get("/healthz").status_code == 200
    assert_not_ready(client.get("/readyz"))
    (card,) = client.get("/v1/models").json()["data"]
    assert card == client.get("/v1/models/slow").json()
    assert (card["state"], card["failure"], card["height"]) == ("loading", None, 7)
    assert card["parameters"] is card["state_bytes_per_image"] is card["backend"] is None


def test_images_are_refused_and_invalid_requests_as_invalid(client: httpx.Client) -> None:
    assert_not_ready(client.post("/v1/images/generations", json={}))
    assert client.post("/v1/images/generations", json={"n": 0}).status_code == 400


@pytest.mark.parametrize("path", ["/v1/images/edits", "/v1/images/likelihoods"])
def test_pictures_are_refused_without_being_decoded(client: httpx.Client, path: str) -> None:
    assert_not_ready(client.post(path, json={"image": text(b"no picture")}))


def test_websocket_jobs_are_refused(loading: Server) -> None:
    with connected(loading.url) as websocket:
        assert websocket.paint(type="generate").messages[0]["error"]["code"] == "not_ready"


def test_probes_are_not_logged(loading: Server, client: httpx.Client) -> None:
    client.get("/readyz")
    client.post("/v1/images/generations", json={}, headers={"x-request-id": "behind"})
    wait_for(lambda: any("request_id=behind" in line for line in loading.log), "a log line")
    assert not [line for line in loading.log if "/readyz" in line]


def test_a_model_that_cannot_be_loaded_ends_the_server_with_one_sentence(loading: Server, directory: Path) -> None:
    (directory / "gate").open("wb").close()
    assert loading.wait_until_exited() == 2
    assert loading.log[-1].startswith(f"scanline: {directory / 'model.safetensors'} is not a readable safetensors file")
    assert not [line for line in loading.log if "Traceback" in line]
