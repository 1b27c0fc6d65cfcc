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
from tests.support.server.running_server import Server
from tests.support.server.websocket_client import WebsocketClient, connected

BAD: tuple[object, ...] = ("0", [0], [0, 0, 0], [0, -1], [0, 0.5], [0, True])
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
    assert not {"state", "trace"} & set(websocket.paint(type="generate", seed=7).order)


@pytest.mark.parametrize("name", ["state", "trace"])
def test_an_invalid_or_unknown_layer_and_head_are_refused(websocket: WebsocketClient, name: str) -> None:
    unknown = f"{name}: colour has layers 0 to 1 and heads 0 to 1."
    cases = [({name: value}, f"{name} {SHAPE}", name) for value in BAD]
    cases += [({name: value}, unknown, name) for value in ([2, 0], [0, 2])]
    for fields, message, param in (*cases, ({"state": [0, 0], "trace": [0, 0]}, BOTH, "trace")):
        error = websocket.paint(type="generate", **fields).messages[-1]["error"]
        assert (error["message"], error["param"]) == (message, param)


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
