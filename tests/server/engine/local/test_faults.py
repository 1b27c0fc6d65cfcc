"""An engine that fails, stands still or is stopped."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local import engine_client, engine_process
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.settings import Settings
from tests.support.engine.engines import CRASHING_SEED, ENDLESS, FaultyOptions, RecordingClient, with_deadline
from tests.support.pictures import painted
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.in_process_server import serve_in_process
from tests.support.server.json_requests import GENERATIONS, post
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import serve
from tests.support.server.sse_reader import images, named, post_for_events
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

IMAGES = 150  # of each client: all are in work when the engine is killed
FIELDS = {"n": IMAGES, "seed": 11}


@pytest.fixture(scope="module")
def faulty_server(grey_directory: Path) -> Iterator[tuple[str, EngineClient]]:
    """A server whose engine does not survive images of some seeds: its address and its engine client."""
    settings = Settings(models=(str(grey_directory),), slots=4, threads=1)
    with serve_in_process(settings, FaultyOptions) as served:
        yield served


@pytest.fixture
def client(faulty_server: tuple[str, EngineClient]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=faulty_server[0], timeout=PATIENCE) as client:
        yield client


def not_ready(client: httpx.Client) -> httpx.Response | None:
    response = client.get("/readyz")
    return response if response.status_code == 503 else None


def test_clients_of_every_kind_receive_the_same_bytes_and_bits_each_once_although_the_engine_is_killed(
    faulty_server: tuple[str, EngineClient], client: httpx.Client
) -> None:
    """When the websocket has received the first bytes."""
    url, engine = faulty_server
    with connected(url) as websocket, ThreadPoolExecutor() as threads:
        posting = threads.submit(post, client, GENERATIONS, **FIELDS)
        streaming = threads.submit(post_for_events, client, GENERATIONS, partial_images=3, **FIELDS)
        websocket.send(type="generate", **FIELDS)
        while not websocket.receive().frames:
            pass
        assert engine.process is not None
        os.kill(engine.process.process.pid, signal.SIGKILL)
        while_it_starts = wait_for(lambda: not_ready(client), "a server whose engine starts")
        assert while_it_starts.json()["error"]["code"] == "not_ready"
        job, posted, events = websocket.receive_until_finished(1)[0], posting.result(), streaming.result()
    metrics = Metrics(client)
    assert metrics.of("engine_restarts_total", model_name="grey") == 1
    assert metrics.of("engine_heartbeat_age_seconds", model_name="grey") < PATIENCE
    undisturbed = post(client, GENERATIONS, **FIELDS)
    assert posted["data"] == undisturbed["data"]
    np.testing.assert_array_equal(images(events), painted(undisturbed))
    np.testing.assert_array_equal(job.images(), painted(undisturbed).reshape(IMAGES, 35))
    ends = [message for message in job.messages if message["type"] == "image"]
    bits = {one["index"]: one["bits_per_dim"] for one in undisturbed["data"]}
    for received in (named(events, "completed"), ends):
        assert len(received) == IMAGES
        assert {one["index"]: one["bits_per_dim"] for one in received} == bits
    assert job.order[-1] == "done"


def test_a_request_that_crashes_the_engine_must_not_be_retried(client: httpx.Client) -> None:
    crashing = client.post(GENERATIONS, json={"seed": CRASHING_SEED})
    error = crashing.json()["error"]
    assert (crashing.status_code, error["type"], error["code"]) == (500, "server_error", "engine_failed")
    assert crashing.headers["x-should-retry"] == "false"
    assert ONE_SENTENCE.fullmatch(error["message"])
    assert client.post(GENERATIONS, json={"seed": 5}).status_code == 200


def test_a_silent_engine_is_not_ready_and_is_again_when_it_goes_on(grey_directory: Path) -> None:
    with serve(grey_directory, "--slots", "4") as server, httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        os.kill(server.engine, signal.SIGSTOP)
        response = wait_for(lambda: refused(client), "a server that is not ready")
        assert response.json()["error"]["code"] == "not_ready"
        assert Metrics(client).of("engine_up") == 0
        assert Metrics(client).of("engine_heartbeat_age_seconds") > engine_process.SILENT_SECONDS
        os.kill(server.engine, signal.SIGCONT)
        wait_for(lambda: client.get("/readyz").status_code == 200, "a server that is ready")
        assert client.post("/v1/images/generations", json={}).status_code == 200


def refused(client: httpx.Client) -> httpx.Response | None:
    response = client.get("/readyz")
    return response if response.status_code == 503 else None


def test_a_killed_engine_is_not_ready_at_once(runner: asyncio.Runner, grey_directory: Path) -> None:
    async def killed() -> None:
        engine = await RecordingClient(EngineOptions(grey_directory, "cpu", slots=1, threads=1)).started()
        assert engine.is_ready
        assert engine.process is not None
        engine.process.kill()
        assert not engine.is_ready
        await engine.close()

    runner.run(killed())


@pytest.fixture
def short_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "KILL_SECONDS", 1.0)
    monkeypatch.setattr(engine_client, "CLOSING_SECONDS", 1.0)


@pytest.mark.usefixtures("short_kill")
def test_an_engine_that_cannot_be_killed_is_given_up(
    runner: asyncio.Runner, grey_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stopped process whose kill has no effect stands for one that waits for a device that hangs."""

    async def given_up() -> None:
        options = EngineOptions(grey_directory, "cpu", slots=1, threads=1, timeout=3)
        engine = await RecordingClient(options).started()
        assert engine.process is not None
        process = engine.process.process
        kill, process.kill = process.kill, lambda: None  # type: ignore[method-assign]
        try:
            with engine.reserve(2), engine.paint(ENDLESS, seed=0) as job:
                engine.signal(signal.SIGSTOP)
                with pytest.raises(EngineFailedError, match="stopped while it worked"):
                    await with_deadline(job.wait())
            assert engine.failed.is_set()
            assert not engine.is_ready
            assert process not in multiprocessing.active_children()
            await with_deadline(engine.close())
        finally:
            kill()
            process.join()

    runner.run(given_up())
    assert "the engine cannot be killed and is given up" in caplog.text


@pytest.mark.usefixtures("short_kill")
def test_closing_does_not_wait_for_an_engine_that_cannot_be_killed(
    runner: asyncio.Runner, grey_directory: Path
) -> None:
    async def closed() -> None:
        engine = await RecordingClient(EngineOptions(grey_directory, "cpu", slots=1, threads=1)).started()
        assert engine.process is not None
        process = engine.process.process
        kill, process.kill = process.kill, lambda: None  # type: ignore[method-assign]
        try:
            engine.signal(signal.SIGSTOP)
            await asyncio.wait_for(engine.close(), 60)
        finally:
            kill()
            process.join()

    runner.run(closed())
