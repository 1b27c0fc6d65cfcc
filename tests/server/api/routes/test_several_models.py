"""Several models in one server: each paints its own bytes, and one that cannot load affects no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from scanline.server.registry import served_models
from scanline.server.settings import Settings
from tests.support.error_answers import ONE_SENTENCE
from tests.support.pictures import encode, noise, painted, text
from tests.support.running_server import PATIENCE, Server
from tests.support.sse_reader import images, post_for_events
from tests.support.websocket_client import connected

SHAPES = {"grey": (7, 5), "colour": (3, 4, 3)}
PICTURES = {name: text(encode(noise(*shape))) for name, shape in SHAPES.items()}
GENERATIONS = "/v1/images/generations"


@pytest.fixture(scope="module")
def broken_directory(tmp_path_factory: pytest.TempPathFactory, grey_directory: Path) -> Path:
    """A model whose weight file is invalid."""
    directory = tmp_path_factory.mktemp("models") / "broken"
    directory.mkdir()
    (directory / "config.json").write_bytes((grey_directory / "config.json").read_bytes())
    (directory / "model.safetensors").write_bytes(b"no weights")
    return directory


@pytest.fixture(scope="module")
def several(grey_directory: Path, colour_directory: Path, broken_directory: Path) -> Iterator[Server]:
    """Two models that load and one that does not; two threads each, where other servers have one."""
    others = ("--model", str(colour_directory), "--model", str(broken_directory))
    server = Server(grey_directory, *others, "--slots", "8", "--threads", "2")
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture
def client(several: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=several.url, timeout=PATIENCE) as client:
        yield client


def assert_failed(status: int, error: dict[str, Any]) -> None:
    __tracebackhide__ = True
    found = (status, error["type"], error["param"], error["code"])
    assert found == (503, "server_error", "model", "model_failed")
    assert error["message"].startswith("The model broken cannot be served: broken/model.safetensors is not a readable")
    assert ONE_SENTENCE.fullmatch(error["message"])


@pytest.mark.parametrize("name", SHAPES)
def test_each_model_paints_its_own_bytes(client: httpx.Client, request: pytest.FixtureRequest, name: str) -> None:
    model: Transformer = request.getfixturevalue(name)
    answer = client.post(GENERATIONS, json={"model": name, "n": 3, "seed": 7}).json()
    assert answer["model"] == name
    np.testing.assert_array_equal(painted(answer), paint(model, 3, seed=7).images.reshape(3, *SHAPES[name]))


def test_the_first_model_is_the_default(client: httpx.Client) -> None:
    assert client.post(GENERATIONS, json={}).json()["model"] == "grey"


@pytest.mark.parametrize("name", SHAPES)
def test_each_model_completes(client: httpx.Client, name: str) -> None:
    fields = {"model": name, "image": PICTURES[name], "keep_rows": 2}
    (image,) = painted(client.post("/v1/images/edits", json=fields).json())
    np.testing.assert_array_equal(image[:2], noise(*SHAPES[name])[:2])


@pytest.mark.parametrize("name", SHAPES)
def test_each_model_scores(client: httpx.Client, name: str) -> None:
    answer = client.post("/v1/images/likelihoods", json={"model": name, "image": PICTURES[name]}).json()
    assert answer["model"] == name
    assert answer["data"][0]["bits_per_dim"] > 0


@pytest.mark.parametrize("name", SHAPES)
def test_each_model_streams_events(client: httpx.Client, request: pytest.FixtureRequest, name: str) -> None:
    model: Transformer = request.getfixturevalue(name)
    received = images(post_for_events(client, GENERATIONS, model=name, n=2, seed=7))
    np.testing.assert_array_equal(received, paint(model, 2, seed=7).images.reshape(2, *SHAPES[name]))


def test_one_websocket_uses_both_models(several: Server, grey: Transformer, colour: Transformer) -> None:
    with connected(several.url) as websocket:
        for name in SHAPES:
            websocket.send(type="generate", id=name, model=name, n=2, seed=7)
        jobs = websocket.receive_until_finished(2)
    np.testing.assert_array_equal(jobs["grey"].images(), paint(grey, 2, seed=7).images)
    np.testing.assert_array_equal(jobs["colour"].images(), paint(colour, 2, seed=7).images)


def test_all_models_are_listed_with_their_state(client: httpx.Client) -> None:
    cards = client.get("/v1/models").json()["data"]
    assert [(card["id"], card["state"]) for card in cards] == [
        ("grey", "ready"),
        ("colour", "ready"),
        ("broken", "failed"),
    ]


def test_a_failed_model_shows_its_error_without_its_path(client: httpx.Client, broken_directory: Path) -> None:
    failure = client.get("/v1/models/broken").json()["failure"]
    assert failure.startswith("broken/model.safetensors is not a readable safetensors file")
    assert str(broken_directory.parent) not in failure


def test_a_failed_model_does_not_make_the_server_unready(client: httpx.Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json()["models"] == {"grey": "ready", "colour": "ready", "broken": "failed"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_for_a_failed_model_is_refused(client: httpx.Client, stream: bool) -> None:
    response = client.post(GENERATIONS, json={"model": "broken", "stream": stream})
    assert_failed(response.status_code, response.json()["error"])
    assert "retry-after" not in response.headers


@pytest.mark.parametrize("path", ["/v1/images/edits", "/v1/images/likelihoods"])
def test_pictures_for_a_failed_model_are_refused(client: httpx.Client, path: str) -> None:
    response = client.post(path, json={"model": "broken", "image": PICTURES["grey"]})
    assert_failed(response.status_code, response.json()["error"])


def test_a_websocket_job_for_a_failed_model_is_refused(several: Server) -> None:
    with connected(several.url) as websocket:
        assert_failed(503, websocket.paint(type="generate", model="broken").messages[-1]["error"])
        assert websocket.paint(type="generate", model="grey").order[-1] == "done"


def test_the_official_client_does_not_retry_a_failed_model(several: Server) -> None:
    sent: list[str] = []
    recording = openai.DefaultHttpxClient(event_hooks={"request": [lambda request: sent.append(request.url.path)]})
    with (
        openai.OpenAI(base_url=f"{several.url}/v1", api_key="none", max_retries=5, http_client=recording) as official,
        pytest.raises(openai.InternalServerError),
    ):
        official.images.generate(prompt="", model="broken")
    assert sent == [GENERATIONS]


def test_an_unknown_model_is_not_found(client: httpx.Client) -> None:
    response = client.post(GENERATIONS, json={"model": "white"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def test_metrics_have_a_model_label(client: httpx.Client) -> None:
    lines = client.get("/metrics").text.splitlines()
    up = {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith("scanline_engine_up")}
    assert up == {"grey": 1, "colour": 1, "broken": 0}


def test_a_server_without_a_loadable_model_exits_with_one_sentence(broken_directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in broken_directory.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    server = Server(broken_directory, "--model", str(other))
    assert server.wait_until_exited() == 2
    assert server.log[-1].startswith("scanline: ")
    assert str(broken_directory / "model.safetensors") in server.log[-1]
    assert str(other / "model.safetensors") in server.log[-1]
    assert not [line for line in server.log if "Traceback" in line]


def shares(count: int, grey_directory: Path, tmp_path: Path, **given: Any) -> list[tuple[float, int | None]]:
    """Share of the free memory, and threads, of the engines of `count` models."""
    directories = []
    for index in range(count):
        directories.append(tmp_path / f"copy{index}")
        directories[-1].mkdir()
        (directories[-1] / "config.json").write_bytes((grey_directory / "config.json").read_bytes())
    models = served_models(Settings(models=tuple(map(str, directories)), **given)).all.values()
    return [(model.engine.options.share, model.engine.options.threads) for model in models]


def test_a_single_model_has_the_whole_machine(grey_directory: Path, tmp_path: Path) -> None:
    assert shares(1, grey_directory, tmp_path) == [(1, None)]


def test_several_share_the_machine(grey_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.server.registry.cores", lambda: 8)
    assert shares(3, grey_directory, tmp_path) == [(1 / 3, 3), (1 / 3, 3), (1 / 3, 2)]


def test_more_models_than_cores_have_a_thread_each(
    grey_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.server.registry.cores", lambda: 2)
    assert shares(3, grey_directory, tmp_path) == [(1 / 3, 1)] * 3


def test_the_threads_setting_is_per_model(grey_directory: Path, tmp_path: Path) -> None:
    assert shares(2, grey_directory, tmp_path, threads=5) == [(1 / 2, 5)] * 2
