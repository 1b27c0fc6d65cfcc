"""Snapshots of the state of a layer and head, sent over the websocket while an image is painted."""

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
from tests.support.websocket_client import WebsocketClient, connected

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
def websocket(colour_server: Server) -> Iterator[WebsocketClient]:
    with connected(colour_server.url) as websocket:
        yield websocket


def values(text: str) -> torch.Tensor:
    return torch.tensor(np.frombuffer(b64decode(text), "<f4"))


@pytest.mark.parametrize("name", ["state", "trace"])
def test_the_state_is_that_of_the_recurrence(websocket: WebsocketClient, colour: Transformer, name: str) -> None:
    job = websocket.paint(type="generate", n=2, seed=7, **{name: [1, 0]})
    assert set(job.order) & {"state", "trace"} == {name}
    snapshots = [message for message in job.messages if message["type"] == name]
    positions = [snapshot["position"] for snapshot in snapshots]
    assert positions == sorted(set(positions))
    assert positions[-1] == colour.config.bytes
    image = torch.tensor(np.frombuffer(job.image(0), np.uint8)).unsqueeze(0)
    for snapshot in snapshots:
        state = State.zeros(colour.config, 1)
        with torch.inference_mode():
            colour.parallel(image, state, snapshot["position"])
        assert_close("s", state.s[1, 0, 0].reshape(-1), values(snapshot["s"]))
        assert_close("z", state.z[1, 0, 0].reshape(-1), values(snapshot["z"]))


def test_state_snapshots_change_no_image(websocket: WebsocketClient) -> None:
    watched = websocket.paint(type="generate", n=3, seed=7, state=[0, 1]).images()
    np.testing.assert_array_equal(watched, websocket.paint(type="generate", n=3, seed=7).images())


def test_without_a_request_no_state_is_sent(websocket: WebsocketClient) -> None:
    assert not {"state", "trace"} & set(websocket.paint(type="generate", seed=7).order)


@pytest.mark.parametrize("name", ["state", "trace"])
@pytest.mark.parametrize("label", BAD)
def test_an_invalid_layer_and_head_are_refused(websocket: WebsocketClient, label: str, name: str) -> None:
    error = websocket.paint(type="generate", **{name: BAD[label]}).messages[-1]["error"]
    assert (error["message"], error["param"]) == (f"{name} {SHAPE}", name)


def test_both_names_together_are_refused(websocket: WebsocketClient) -> None:
    error = websocket.paint(type="generate", state=[0, 0], trace=[0, 0]).messages[-1]["error"]
    assert (error["message"], error["param"]) == (BOTH, "trace")


@pytest.mark.parametrize("state", [[2, 0], [0, 2]])
def test_an_unknown_layer_or_head_is_refused(websocket: WebsocketClient, state: list[int]) -> None:
    error = websocket.paint(type="generate", state=state).messages[-1]["error"]
    assert error["message"] == "state: colour has layers 0 to 1 and heads 0 to 1."
    assert error["param"] == "state"


def test_the_number_of_observed_jobs_is_limited(websocket: WebsocketClient) -> None:
    websocket.send_together(*({"type": "generate", "n": 40, "state": [0, 0]} for _ in range(MAX_WATCHED_JOBS + 1)))
    jobs = websocket.receive_until_finished(MAX_WATCHED_JOBS + 1)
    refused = [job for job in jobs.values() if job.order[-1] == "error"]
    assert [job.messages[-1]["error"]["code"] for job in refused] == ["too_many_traces"]
    assert websocket.paint(type="generate", state=[0, 0]).order[-1] == "done"


def test_only_the_websocket_offers_state_snapshots(colour_client: httpx.Client, websocket: WebsocketClient) -> None:
    response = colour_client.post("/v1/images/generations", json={"state": [0, 0]})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "unknown_parameter"
    assert websocket.paint(type="complete", state=[0, 0], image="").order[-1] == "error"
