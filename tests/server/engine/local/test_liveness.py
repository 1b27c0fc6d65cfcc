"""Engines that hang: they are not ready, and one that cannot be killed is abandoned."""

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path

import httpx
import pytest

from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local import engine_client, engine_process
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engine.engines import ENDLESS, RecordingClient, with_deadline
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import PATIENCE, serve
from tests.support.waiting import wait_for


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
