"""Snapshots of the state of a layer and head, sent over the websocket while an image is painted."""

from base64 import b64decode
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from scanline.model.network.transformer import Transformer
from scanline.model.state import State
from scanline.server.api.routes.state_snapshot import MAX_WATCHED_OF_CLIENT
from tests.support.close import assert_close
from tests.support.server.running_server import Server
from tests.support.server.websocket_client import WebsocketClient, connected

BAD: tuple[object, ...] = ("0", [0], [0, 0, 0], [0, -1], [0, 0.5], [0, True])
SHAPE = "state must be [layer, head], two whole numbers from 0."
UNKNOWN = "state: this model has layers 0 to 1 and heads 0 to 1."


@pytest.fixture
def websocket(colour_server: Server) -> Iterator[WebsocketClient]:
    with connected(colour_server.url) as websocket:
        yield websocket


def values(text: str) -> torch.Tensor:
    return torch.tensor(np.frombuffer(b64decode(text), "<f4"))


def test_the_state_is_that_of_the_recurrence(websocket: WebsocketClient, colour: Transformer) -> None:
    job = websocket.paint(type="generate", n=2, seed=7, state=[1, 0])
    snapshots = [message for message in job.messages if message["type"] == "state"]
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
    assert "state" not in websocket.paint(type="generate", seed=7).order


def test_an_invalid_or_unknown_layer_and_head_are_refused(websocket: WebsocketClient) -> None:
    for value, message in (*((bad, SHAPE) for bad in BAD), ([2, 0], UNKNOWN), ([0, 2], UNKNOWN)):
        error = websocket.paint(type="generate", state=value).messages[-1]["error"]
        assert (error["message"], error["param"]) == (message, "state")


def test_the_number_of_observed_jobs_of_a_client_is_limited(websocket: WebsocketClient) -> None:
    websocket.send_together(*({"type": "generate", "n": 40, "state": [0, 0]} for _ in range(MAX_WATCHED_OF_CLIENT + 1)))
    jobs = websocket.receive_until_finished(MAX_WATCHED_OF_CLIENT + 1)
    refused = [job for job in jobs.values() if job.order[-1] == "error"]
    assert [job.messages[-1]["error"]["code"] for job in refused] == ["too_many_state_snapshots"]
    assert websocket.paint(type="generate", state=[0, 0]).order[-1] == "done"
