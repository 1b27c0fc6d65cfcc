"""Several models in one server: each paints its own bytes, and one that cannot load affects no other."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from scanline.server.models.registry import served_models
from scanline.server.settings import Settings
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected

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
def test_each_model_paints_completes_scores_and_streams(
    client: httpx.Client, request: pytest.FixtureRequest, name: str
) -> None:
    model: Transformer = request.getfixturevalue(name)
    answer = client.post(GENERATIONS, json={"model": name, "n": 3, "seed": 7}).json()
    assert answer["model"] == name
    expected = paint(model, 3, seed=7).images.reshape(3, *SHAPES[name])
    np.testing.assert_array_equal(painted(answer), expected)
    np.testing.assert_array_equal(images(post_for_events(client, GENERATIONS, model=name, n=3, seed=7)), expected)
    fields = {"model": name, "image": PICTURES[name]}
    (image,) = painted(client.post("/v1/images/edits", json={**fields, "keep_rows": 2}).json())
    np.testing.assert_array_equal(image[:2], noise(*SHAPES[name])[:2])
    scored = client.post("/v1/images/likelihoods", json=fields).json()
    assert (scored["model"], scored["data"][0]["bits_per_dim"] > 0) == (name, True)


def test_one_websocket_uses_both_models(several: Server, grey: Transformer, colour: Transformer) -> None:
    with connected(several.url) as websocket:
        for name in SHAPES:
            websocket.send(type="generate", id=name, model=name, n=2, seed=7)
        jobs = websocket.receive_until_finished(2)
    np.testing.assert_array_equal(jobs["grey"].images(), paint(grey, 2, seed=7).images)
    np.testing.assert_array_equal(jobs["colour"].images(), paint(colour, 2, seed=7).images)


def test_all_models_are_exposed_with_their_state(client: httpx.Client) -> None:
    cards = client.get("/v1/models").json()["data"]
    assert [(card["id"], card["state"]) for card in cards] == [
        ("grey", "ready"),
        ("colour", "ready"),
        ("broken", "failed"),
    ]
    response = client.get("/readyz")
    assert response.status_code == 200
    assert client.post(GENERATIONS, json={}).json()["model"] == "grey"  # the first is the default
    assert response.json()["models"] == {"grey": "ready", "colour": "ready", "broken": "failed"}
    lines = client.get("/metrics").text.splitlines()
    up = {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith("scanline_engine_up")}
    assert up == {"grey": 1, "colour": 1, "broken": 0}


def test_a_failed_model_shows_its_error_without_its_path(client: httpx.Client, broken_directory: Path) -> None:
    failure = client.get("/v1/models/broken").json()["failure"]
    assert failure.startswith("broken/model.safetensors is not a readable safetensors file")
    assert str(broken_directory.parent) not in failure


def test_requests_and_jobs_for_a_failed_model_are_refused(several: Server, client: httpx.Client) -> None:
    fields = {"model": "broken", "image": PICTURES["grey"]}
    edits, likelihoods = "/v1/images/edits", "/v1/images/likelihoods"
    for path, more in ((GENERATIONS, {"stream": True}), (edits, fields), (likelihoods, fields)):
        response = client.post(path, json={"model": "broken", **more})
        assert_failed(response.status_code, response.json()["error"])
        assert "retry-after" not in response.headers
        assert response.headers["x-should-retry"] == "false"
    with connected(several.url) as websocket:
        assert_failed(503, websocket.paint(type="generate", model="broken").messages[-1]["error"])
        assert websocket.paint(type="generate", model="grey").order[-1] == "done"


@pytest.mark.parametrize(
    ("cores", "models", "given", "expected"),
    [
        (8, 1, {}, [(1, None)]),
        (8, 3, {}, [(1 / 3, 3), (1 / 3, 3), (1 / 3, 2)]),
        (2, 3, {}, [(1 / 3, 1)] * 3),
        (8, 2, {"threads": 5}, [(1 / 2, 5)] * 2),
    ],
    ids=["a single model", "several models", "more models than cores", "threads of each"],
)
def test_models_share_the_machine(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    grey_directory: Path,
    cores: int,
    models: int,
    given: Any,
    expected: Any,
) -> None:
    """Each has a share of the free memory, and threads."""
    monkeypatch.setattr("scanline.server.models.registry.cores", lambda: cores)
    copies = tuple(str(shutil.copytree(grey_directory, tmp_path / f"copy{index}")) for index in range(models))
    options = [model.engine.options for model in served_models(Settings(models=copies, **given)).all.values()]
    assert [(one.share, one.threads) for one in options] == expected
