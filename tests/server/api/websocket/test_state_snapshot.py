"""The state of a layer and head, told over the websocket while an image is painted."""

from base64 import b64decode
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import torch

from scanline.model.network.transformer import Transformer
from scanline.model.state import State
from scanline.server.api.routes.state_snapshot import MAX_WATCHED_JOBS
from tests.support.close import assert_close
from tests.support.running_server import Server
from tests.support.websocket_client import Painter, connected

BAD = {
    "text": "0",
    "one number": [0],
    "three": [0, 0, 0],
    "negative": [0, -1],
    "a share": [0, 0.5],
    "a truth": [0, True],
}
SHAPE = "must be [layer, head], two whole numbers from 0."
BOTH = "state and trace exclude each other; trace is the old name of state."


@pytest.fixture
def painter(colour_server: Server) -> Iterator[Painter]:
    with connected(colour_server.url) as painter:
        yield painter


def values(text: str) -> torch.Tensor:
    return torch.tensor(np.frombuffer(b64decode(text), "<f4"))


@pytest.mark.parametrize("name", ["state", "trace"])
def test_the_state_is_that_of_the_recurrence(painter: Painter, colour: Transformer, name: str) -> None:
    told = painter.paint(type="generate", n=2, seed=7, **{name: [1, 0]})
    assert set(told.order) & {"state", "trace"} == {name}
    glimpses = [message for message in told.messages if message["type"] == name]
    positions = [glimpse["position"] for glimpse in glimpses]
    assert positions == sorted(set(positions))
    assert positions[-1] == colour.config.bytes
    image = torch.tensor(np.frombuffer(told.image(0), np.uint8)).unsqueeze(0)
    for glimpse in glimpses:
        state = State.zeros(colour.config, 1)
        with torch.inference_mode():
            colour.parallel(image, state, glimpse["position"])
        assert_close("s", state.s[1, 0, 0].reshape(-1), values(glimpse["s"]))
        assert_close("z", state.z[1, 0, 0].reshape(-1), values(glimpse["z"]))


def test_watching_changes_no_image(painter: Painter) -> None:
    watched = painter.paint(type="generate", n=3, seed=7, state=[0, 1]).images()
    np.testing.assert_array_equal(watched, painter.paint(type="generate", n=3, seed=7).images())


def test_who_does_not_ask_is_told_nothing(painter: Painter) -> None:
    assert not {"state", "trace"} & set(painter.paint(type="generate", seed=7).order)


@pytest.mark.parametrize("name", ["state", "trace"])
@pytest.mark.parametrize("label", BAD)
def test_what_names_no_layer_and_head_is_refused(painter: Painter, label: str, name: str) -> None:
    error = painter.paint(type="generate", **{name: BAD[label]}).messages[-1]["error"]
    assert (error["message"], error["param"]) == (f"{name} {SHAPE}", name)


def test_both_names_together_are_refused(painter: Painter) -> None:
    error = painter.paint(type="generate", state=[0, 0], trace=[0, 0]).messages[-1]["error"]
    assert (error["message"], error["param"]) == (BOTH, "trace")


@pytest.mark.parametrize("name", ["state", "trace"])
@pytest.mark.parametrize("state", [[2, 0], [0, 2]])
def test_a_layer_or_head_that_is_not_there_is_refused(painter: Painter, state: list[int], name: str) -> None:
    error = painter.paint(type="generate", **{name: state}).messages[-1]["error"]
    assert error["message"] == f"{name}: colour has layers 0 to 1 and heads 0 to 1."
    assert error["param"] == name


def test_only_so_many_watch_at_once(painter: Painter) -> None:
    painter.send_together(*({"type": "generate", "n": 40, "state": [0, 0]} for _ in range(MAX_WATCHED_JOBS + 1)))
    jobs = painter.hear_ends(MAX_WATCHED_JOBS + 1)
    refused = [job for job in jobs.values() if job.order[-1] == "error"]
    assert [job.messages[-1]["error"]["code"] for job in refused] == ["too_many_traces"]
    assert painter.paint(type="generate", state=[0, 0]).order[-1] == "done"


def test_it_is_the_websockets_alone(colour_client: httpx.Client, painter: Painter) -> None:
    response = colour_client.post("/v1/images/generations", json={"state": [0, 0]})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "unknown_parameter"
    assert painter.paint(type="complete", state=[0, 0], image="").order[-1] == "error"
