"""Reloading a model: new requests get the files that are there now, requests in progress finish with the old ones."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from tests.support import small_models
from tests.support.error_answers import ONE_SENTENCE
from tests.support.metrics_reader import Metrics
from tests.support.pictures import painted
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.shared_servers import bearer
from tests.support.tiny import GREY
from tests.support.waiting import wait_for
from tests.support.websocket_client import connected

KEY = "sk-reload"
URL, RELOAD = "/v1/images/generations", "/v1/models/changing/reload"
IMAGES = 2000  # in four slots: seconds of painting


@pytest.fixture
def directory(tmp_path: Path, grey: Transformer) -> Path:
    save_model(grey, tmp_path / "changing")
    return tmp_path / "changing"


@pytest.fixture
def server(directory: Path) -> Iterator[Server]:
    options = ("--slots", "4", "--max-images-per-request", str(IMAGES), "--api-key", KEY)
    with serve(directory, *options) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=PATIENCE, headers=bearer(KEY)) as client:
        yield client


def save_other(directory: Path, seed: int = 5) -> Transformer:
    save_model(small_models.model(GREY, seed), directory)
    return load_model(directory)


def reload(client: httpx.Client) -> httpx.Response:
    """Reloads, once the engine before the last reload has stopped."""

    def answer() -> httpx.Response | None:
        response = client.post(RELOAD)
        return None if "reload_in_progress" in response.text else response

    return wait_for(answer, "a reload")


def assert_paints(client: httpx.Client, model: Transformer) -> None:
    __tracebackhide__ = True
    posted = painted(client.post(URL, json={"n": 3, "seed": 1}).json())
    np.testing.assert_array_equal(posted.reshape(3, -1), paint(model, 3, seed=1).images)


def assert_error(response: httpx.Response, status: int, code: str) -> None:
    __tracebackhide__ = True
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert ONE_SENTENCE.fullmatch(error["message"]), error


def test_new_requests_get_the_new_model_and_a_stream_in_progress_finishes_with_the_old_one(
    server: Server, client: httpx.Client, directory: Path, grey: Transformer
) -> None:
    before = client.get("/v1/models/changing").json()
    with connected(server.url, additional_headers=bearer(KEY)) as websocket:
        websocket.send(type="generate", id="old", n=IMAGES, seed=1)
        while not websocket.receive().frames:
            pass
        other = save_other(directory)
        assert_paints(client, grey)  # files that change change nothing
        card = reload(client).json()
        assert card == client.get("/v1/models/changing").json()
        assert card["digest"] != before["digest"]
        assert_paints(client, other)
        assert_error(client.post(RELOAD), 409, "reload_in_progress")
        old = websocket.receive_until_finished(1)["old"].images()
    np.testing.assert_array_equal(old, paint(grey, IMAGES, seed=1).images)
    wait_for(lambda: len(server.engines()) == 1, "the end of the old engine")
    metrics = Metrics(client)
    assert metrics.of("images_total", operation="paint", finished_reason="finished") == IMAGES + 3 + 3
    assert metrics.of("num_images_reserved") == 0


def test_a_model_of_another_size_is_served_after_a_reload(client: httpx.Client, directory: Path) -> None:
    save_model(small_models.model(replace(GREY, height=4)), directory)
    card = reload(client).json()
    assert (card["height"], card["width"]) == (4, 5)
    assert_paints(client, load_model(directory))
    edited = client.post(URL, json={"size": "5x7"})
    assert_error(edited, 400, "invalid_value")


def test_files_that_cannot_be_loaded_leave_the_old_model_served(
    server: Server, client: httpx.Client, directory: Path, grey: Transformer
) -> None:
    before = client.get("/v1/models/changing").json()
    (directory / "model.safetensors").write_bytes(b"no tensors")
    response = reload(client)
    assert_error(response, 409, "model_not_loadable")
    assert str(directory) not in response.text
    (directory / "config.json").unlink()
    assert_error(reload(client), 409, "model_not_loadable")
    assert client.get("/v1/models/changing").json() == before
    assert client.get("/readyz").status_code == 200
    assert_paints(client, grey)
    assert len(server.engines()) == 1
    assert len([line for line in server.log if "was not loaded again" in line]) == 2


def test_a_crash_after_a_reload_restarts_the_reloaded_model(
    server: Server, client: httpx.Client, directory: Path
) -> None:
    other = save_other(directory)
    assert reload(client).status_code == 200
    wait_for(lambda: len(server.engines()) == 1, "the end of the old engine")
    save_other(directory, seed=6)
    os.kill(server.engine, signal.SIGKILL)
    assert_paints(client, other)


def test_sighup_reloads_every_model(server: Server, client: httpx.Client, directory: Path) -> None:
    before = client.get("/v1/models/changing").json()["digest"]
    other = save_other(directory)
    server.process.send_signal(signal.SIGHUP)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: client.get("/v1/models/changing").json()["digest"] != before, "another digest")
    assert_paints(client, other)


def test_requests_meanwhile_are_all_answered(server: Server, client: httpx.Client, directory: Path) -> None:
    def post(number: int) -> int:
        return client.post(URL, json={"n": 20, "seed": number}).status_code

    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(post, range(200))
        save_other(directory)
        assert reload(client).status_code == 200
        assert set(answers) == {200}


def test_a_server_that_is_stopped_after_a_reload_exits_with_0(
    server: Server, client: httpx.Client, directory: Path
) -> None:
    assert reload(client).status_code == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_until_exited() == 0


def test_unknown_models_are_not_found_and_clients_without_a_key_are_refused(
    server: Server, client: httpx.Client
) -> None:
    assert_error(client.post("/v1/models/other/reload"), 404, "model_not_found")
    assert_error(httpx.post(f"{server.url}{RELOAD}"), 401, "invalid_api_key")


def test_a_server_without_keys_does_not_reload_over_http(grey_directory: Path) -> None:
    with serve(grey_directory, "--slots", "1") as server:
        assert_error(httpx.post(f"{server.url}/v1/models/grey/reload"), 403, "reload_not_allowed")
