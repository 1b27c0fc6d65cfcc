"""An engine that fails, stands still or is stopped."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local import engine_client, engine_process
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.settings import Settings
from tests.support.engine.engines import CRASHING_SEED, ENDLESS, FaultyOptions, RecordingClient, with_deadline
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.in_process_server import serve_in_process
from tests.support.server.json_requests import GENERATIONS
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import serve
from tests.support.waiting import PATIENCE, wait_for


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
