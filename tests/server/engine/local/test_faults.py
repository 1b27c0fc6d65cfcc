"""An engine that loads (until a test opens a gate, a pipe), fails, stands still or is stopped."""

import asyncio
import multiprocessing
import os
import signal
from contextlib import contextmanager
from functools import partial
from math import inf

import pytest

from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local import engine_client, engine_process
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engine import engines
from tests.support.engine.engines import RecordingClient, with_deadline
from tests.support.pictures import text
from tests.support.server.forked_server import AVAILABLE
from tests.support.server.json_requests import EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server, client_of, serve
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for


def test_a_silent_engine_is_not_ready_and_is_again_when_it_goes_on(grey_directory):
    with serve(grey_directory, "--slots", "4") as server, server.client() as client:
        os.kill(server.engine, signal.SIGSTOP)
        wait_for(lambda: client.get("/readyz").status_code == 503, "a server that is not ready")
        assert client.get("/readyz").json()["error"]["code"] == "not_ready"
        assert Metrics(client).of("engine_up") == 0
        assert Metrics(client).of("engine_heartbeat_age_seconds") > engine_process.SILENT_SECONDS
        os.kill(server.engine, signal.SIGCONT)
        wait_for(lambda: client.get("/readyz").status_code == 200, "a server that is ready")
        assert client.post(GENERATIONS, json={}).status_code == 200


async def started(directory, timeout=inf):
    return await RecordingClient(
        EngineOptions(directory, "cpu", slots=1, threads=1, timeout=timeout)
    ).started()


async def test_a_killed_engine_is_not_ready_at_once(grey_directory):
    engine = await started(grey_directory)
    assert engine.is_ready
    engine.process.kill()
    assert not engine.is_ready
    await engine.close()


@pytest.fixture
def short_kill(monkeypatch):
    monkeypatch.setattr(engine_process, "KILL_SECONDS", 1.0)
    monkeypatch.setattr(engine_client, "CLOSING_SECONDS", 1.0)


@contextmanager
def not_to_be_killed(engine):
    """A stopped process whose kill has no effect stands for one
    that waits for a device that hangs.
    """
    process = engine.process.process

    kill = process.kill
    process.kill = lambda: None
    try:
        yield process
    finally:
        kill()
        process.join()


@pytest.mark.usefixtures("short_kill")
async def test_an_engine_that_cannot_be_killed(grey_directory, caplog):
    engine = await started(grey_directory, timeout=3)
    with not_to_be_killed(engine) as process:
        with engine.reserve(2), engine.paint(engines.ENDLESS, seed=0) as job:
            engine.signal(signal.SIGSTOP)
            with pytest.raises(EngineFailedError, match="stopped while it worked"):
                await with_deadline(job.wait())
        assert engine.failed.is_set()
        assert not engine.is_ready
        assert process not in multiprocessing.active_children()
        await with_deadline(engine.close())
    assert "the engine cannot be killed and is given up" in caplog.text


@pytest.mark.usefixtures("short_kill")
async def test_closing_waits_for_no_engine_that_cannot_be_killed(grey_directory):
    engine = await started(grey_directory)
    with not_to_be_killed(engine):
        engine.signal(signal.SIGSTOP)
        await asyncio.wait_for(engine.close(), 60)


@pytest.fixture(scope="module")
def directory(tmp_path_factory, grey_directory):
    """A model without weights, and the gate before they are read."""
    directory = tmp_path_factory.mktemp("models") / "slow"
    directory.mkdir()
    (directory / "config.json").write_bytes((grey_directory / "config.json").read_bytes())
    (directory / "model.safetensors").touch()
    os.mkfifo(directory / "gate")
    return directory


@pytest.fixture(scope="module")
def loading(directory):
    if not AVAILABLE:
        pytest.skip("no fork server whose forks can be prepared")
    server = Server(directory, prepare=partial(engines.behind_gate, directory / "gate"))
    server.wait_until_listening()
    yield server
    server.process.kill()
    server.wait_until_exited()


client = client_of("loading")


def assert_not_ready(response):
    __tracebackhide__ = True
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (
        503,
        "server_error",
        "not_ready",
    )
    assert int(response.headers["retry-after"]) > 0


def test_the_server_is_alive_and_not_ready(client):
    assert client.get("/healthz").status_code == 200
    assert_not_ready(client.get("/readyz"))
    (card,) = client.get("/v1/models").json()["data"]
    assert card == client.get("/v1/models/slow").json()
    assert (card["state"], card["failure"], card["height"]) == ("loading", None, 7)
    assert card["parameters"] is card["state_bytes_per_image"] is card["backend"] is None


def test_work_is_refused_and_no_picture_decoded(loading, client):
    assert_not_ready(client.post(GENERATIONS, json={}))
    for path in (EDITS, LIKELIHOODS):
        assert_not_ready(client.post(path, json={"image": text(b"no picture")}))
    assert client.post(GENERATIONS, json={"n": 0}).status_code == 400
    with connected(loading.url) as websocket:
        assert websocket.paint().messages[0]["error"]["code"] == "not_ready"


def test_probes_are_not_logged(loading, client):
    client.get("/readyz")
    client.post(GENERATIONS, json={}, headers={"x-request-id": "behind"})
    loading.wait_for_log("request_id=behind")
    assert not [line for line in loading.log if "/readyz" in line]


def test_a_model_that_cannot_be_loaded_ends_the_server_with_one_sentence(loading, directory):
    (directory / "gate").open("wb").close()
    assert loading.wait_until_exited() == 2
    assert loading.log[-1].startswith(
        f"scanline: {directory / 'model.safetensors'} is not a readable safetensors file"
    )
    assert not [line for line in loading.log if "Traceback" in line]
