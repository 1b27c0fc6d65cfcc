"""Reloading a model: new requests get the files that are there now, requests in
progress finish with the old ones.
"""

import asyncio
import itertools
import os
import pty
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import httpx
import pytest
from numpy.testing import assert_array_equal

from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import Ready
from scanline.model.tasks.offline import paint
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.models.registry import served_models
from scanline.server.models.reload import ModelReloader, ReloadError
from scanline.server.settings import Settings
from tests.support import small_models
from tests.support.pictures import painted
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.in_process_server import client_of_app
from tests.support.server.metrics_reader import Metrics, wait_until_idle
from tests.support.server.running_server import (
    LISTENS,
    SCANLINE,
    Server,
    command_line,
    descendants,
    serve,
)
from tests.support.server.shared_servers import bearer
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

KEY = "sk-reload"
URL = "/v1/images/generations"
RELOAD = "/v1/models/changing/reload"
IMAGES = 500  # in four slots: many ticks


@dataclass
class Reloadable:
    """A server, the directory of its model, and the model that it has."""

    server: Server
    directory: Path
    model: Transformer
    seeds: Iterator[int] = field(default_factory=lambda: itertools.count(5))

    def save_other(self):
        save_model(small_models.model(small_models.GREY, next(self.seeds)), self.directory)
        return load_model(self.directory)

    def reload(self, client):
        """Reload, once the engine before the last reload has stopped."""

        def answer():
            response = client.post(RELOAD)
            return None if "reload_in_progress" in response.text else response

        response = wait_for(answer, "a reload")
        if response.status_code == 200:
            self.model = load_model(self.directory)
        return response

    def wait_for_one_engine(self):
        wait_for(lambda: len(self.server.engines()) == 1, "the end of the old engine")


@pytest.fixture(scope="module")
def served(tmp_path_factory, grey):
    """At the end the server, whose model was reloaded many times, exits with 0."""
    directory = tmp_path_factory.mktemp("models") / "changing"
    save_model(grey, directory)
    with serve(
        directory, *("--slots", "4", "--max-images-per-request", str(IMAGES), "--api-key", KEY)
    ) as server:
        yield Reloadable(server, directory, grey)
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_until_exited() == 0


@pytest.fixture
def client(served):
    with served.server.client(headers=bearer(KEY)) as client:
        yield client


def assert_paints(client, model):
    __tracebackhide__ = True
    posted = painted(client.post(URL, json={"n": 3, "seed": 1}).json())
    assert_array_equal(posted.reshape(3, -1), paint(model, 3, seed=1).images)


def assert_error(response, status, code):
    __tracebackhide__ = True
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert ONE_SENTENCE.fullmatch(error["message"]), error


def test_a_stream_ends_with_the_old_model_new_requests_get_the_new(served, client):
    before = client.get("/v1/models/changing").json()
    old = served.model
    finished = Metrics(client).of("images_total", finished_reason="finished")
    with connected(served.server.url, additional_headers=bearer(KEY)) as websocket:
        websocket.send(type="generate", id="old", n=IMAGES, seed=1)
        while not websocket.receive().frames:
            pass
        new = served.save_other()
        assert_paints(client, old)  # files that change change nothing
        card = served.reload(client).json()
        assert card == client.get("/v1/models/changing").json()
        assert card["digest"] != before["digest"]
        assert_paints(client, new)
        assert_error(client.post(RELOAD), 409, "reload_in_progress")
        received = websocket.receive_until_finished(1)["old"].images()
    assert_array_equal(received, paint(old, IMAGES, seed=1).images)
    served.wait_for_one_engine()
    metrics = Metrics(client)
    assert metrics.of("images_total", finished_reason="finished") == finished + IMAGES + 3 + 3
    assert metrics.of("num_images_reserved") == 0


def test_a_model_of_another_size_is_served_after_a_reload(served, client):
    save_model(small_models.model(replace(small_models.GREY, height=4)), served.directory)
    card = served.reload(client).json()
    assert (card["height"], card["width"]) == (4, 5)
    assert_paints(client, served.model)
    assert_error(client.post(URL, json={"size": "5x7"}), 400, "invalid_value")


def test_files_that_cannot_be_loaded_leave_the_old_model_served(served, client):
    before = client.get("/v1/models/changing").json()
    served.wait_for_one_engine()
    too_large = b'{"bits_per_dim": 1' + 400 * b"0" + b"}"  # for a float
    for name, content in (
        ("evaluation.json", too_large),
        ("model.safetensors", b""),
        ("config.json", b"no model"),
    ):
        (served.directory / name).write_bytes(content)
        response = served.reload(client)
        assert_error(response, 409, "model_not_loadable")
        assert str(served.directory) not in response.text
    (served.directory / "evaluation.json").unlink()
    assert client.get("/v1/models/changing").json() == before
    assert client.get("/readyz").status_code == 200
    assert_paints(client, served.model)
    assert len(served.server.engines()) == 1
    assert (
        len([line for line in served.server.log if "reload of the model changing failed" in line])
        == 3
    )


def test_a_crash_after_a_reload_restarts_the_reloaded_model(served, client):
    new = served.save_other()
    assert served.reload(client).status_code == 200
    served.wait_for_one_engine()
    served.save_other()
    os.kill(served.server.engine, signal.SIGKILL)
    assert_paints(client, new)


COUNTED = ("generation_tokens_total", "engine_steps_total", "time_to_first_token_seconds_count")


def test_counters_of_an_engine_never_fall_at_a_crash_or_a_reload(served, client):
    def counted():
        metrics = wait_until_idle(client)
        return [metrics.of(name) for name in COUNTED]

    served.wait_for_one_engine()
    assert_paints(client, served.model)
    before = counted()
    kill = partial(os.kill, served.server.engine, signal.SIGKILL)
    for change in (kill, partial(served.reload, client), served.wait_for_one_engine):
        change()
        assert_paints(client, served.model)
        after = counted()
        assert all(new > old for new, old in zip(after, before, strict=True)), (before, after)
        before = after


def test_sighup_reloads_every_model(served, client):
    before = client.get("/v1/models/changing").json()["digest"]
    served.model = served.save_other()
    served.server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: client.get("/v1/models/changing").json()["digest"] != before, "another digest")
    assert_paints(client, served.model)


def test_a_reload_needs_a_model_and_a_key(served, client, grey_directory):
    assert_error(client.post("/v1/models/other/reload"), 404, "model_not_found")
    assert_error(httpx.post(f"{served.server.url}{RELOAD}"), 401, "invalid_api_key")
    answer = client_of_app(grey_directory).post("/v1/models/grey/reload")
    assert_error(answer, 403, "reload_not_allowed")


async def test_a_reload_follows_a_failed_one_and_a_crash(grey_directory, monkeypatch):
    models = served_models(Settings(models=(str(grey_directory),), slots=1, threads=1))
    old = models.default.engine
    reloader = ModelReloader(models)
    old.start()
    await old.loaded.wait()
    with monkeypatch.context() as patch:
        patch.setattr(EngineClient, "start", Mock(side_effect=OSError("no room for a process")))
        with pytest.raises(ReloadError, match=r"still served: no room for a process\."):
            await reloader.reload("grey")
    reloader.request_all()
    while models.default.engine is old:
        await asyncio.sleep(0.01)
    # The old engine dies before it is retired, and is started
    # again for the requests that it may have.
    old.process.kill()
    while not models.default.engine.restarts:
        await asyncio.sleep(0.01)
    await reloader.close()
    await models.default.engine.close()


async def test_an_engine_is_kept_while_others_need_it(grey_directory, monkeypatch):
    for name in ("RETIRE_SECONDS", "NEEDED_SECONDS"):
        monkeypatch.setattr(f"scanline.server.models.reload.{name}", 0.0)
    monkeypatch.setattr(EngineClient, "close", AsyncMock())  # it was never started
    models = served_models(Settings(models=(str(grey_directory),), slots=1, threads=1))
    needed = {"digest"}
    engine = models.default.engine
    reloader = ModelReloader(models, needed.__contains__)
    lock = asyncio.Lock()
    engine.ready = Ready(
        parameters=1, slots=1, device="cpu", state_bytes=1, backend="none", digest="digest"
    )
    await lock.acquire()
    retiring = asyncio.create_task(reloader._retire(engine, lock))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not engine.failed.is_set()
    needed.clear()
    await retiring
    assert engine.failed.is_set()


def test_the_installed_command_in_a_terminal(grey_directory, monkeypatch):
    """It shows no key, imports no torch, reloads at a hangup, and ends with
    its terminal, which sends one too.
    """
    monkeypatch.setenv("SCANLINE_API_KEYS", KEY)
    pid, terminal = pty.fork()
    if not pid:
        # under nohup it is ignored until the server handles it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(
            SCANLINE,
            ["scanline", "serve", "--model", str(grey_directory), "--port", "0", "--slots", "1"],
        )
    said = ""
    while not LISTENS.search(said):
        said += os.read(terminal, 4096).decode()
    url = LISTENS.search(said)[1]
    wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "a server that is ready")
    assert KEY not in "".join(map(command_line, [pid, *descendants(pid)]))
    assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()
    os.killpg(pid, signal.SIGHUP)
    while "was reloaded" not in said:
        said += os.read(terminal, 4096).decode()
    assert "died" not in said
    os.close(terminal)
    assert wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0], "the end of the server") == pid
