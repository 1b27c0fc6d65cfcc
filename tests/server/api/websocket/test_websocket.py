"""The websocket /v1/images/stream sends pixels as they are painted."""

import httpx
import numpy as np

from tests.support.pictures import encode, noise, painted, text
from tests.support.server.json_requests import EDITS, GENERATIONS, MASKED, post
from tests.support.server.running_server import Server
from tests.support.server.websocket_client import WebsocketClient, connected


def test_a_job_begins_with_its_description_and_ends_with_done(websocket: WebsocketClient) -> None:
    job = websocket.paint(type="generate", id="a", n=2, seed=7)
    size = {"height": 7, "width": 5, "channels": 1, "temperature": 1, "guidance": 1}
    assert job.messages[0] == {"type": "started", "id": "a", "job": 0, "model": "grey", "n": 2, "seed": 7, **size}
    assert job.messages[-1] == {"type": "done", "id": "a"}
    assert (job.order[0], job.order[-1]) == ("started", "done")


def test_frames_concatenate_to_the_images_of_a_post_request_each_before_its_message(
    websocket: WebsocketClient, client: httpx.Client
) -> None:
    job = websocket.paint(type="generate", n=70, seed=7, temperature=0.8)
    posted = post(client, GENERATIONS, n=70, seed=7, temperature=0.8)
    np.testing.assert_array_equal(job.images(), painted(posted).reshape(70, 35))
    ends = [each for each in job.messages if each["type"] == "image"]
    assert len(ends) == 70
    assert {each["index"]: each["bits_per_dim"] for each in ends} == {
        each["index"]: each["bits_per_dim"] for each in posted["data"]
    }
    last = {what: place for place, what in enumerate(job.order)}
    assert all(last[f"frame {index}"] < last[f"image {index}"] for index in range(70))


def test_completions_are_those_of_a_post_request(websocket: WebsocketClient, client: httpx.Client) -> None:
    fields = {"image": [MASKED["image"], text(encode(noise(7, 5, seed=1)))], "n": 2, "seed": 7}
    for known in ({"mask": MASKED["mask"]}, {"keep_rows": 4}):
        streamed = websocket.paint(type="complete", **fields, **known).images()
        np.testing.assert_array_equal(streamed, painted(post(client, EDITS, **fields, **known)).reshape(4, 35))


def test_default_ids_are_unused_ones_of_the_connection(websocket: WebsocketClient, server: Server) -> None:
    websocket.send_together({"type": "generate", "id": 0, "n": 200}, {"type": "generate"}, {"type": "generate"})
    assert set(websocket.receive_until_finished(3)) == {0, 1, 2}
    first, second = (websocket.paint(type="generate", id="a").messages[0] for _ in range(2))
    assert (first["job"], second["job"]) == (3, 4), "an id that is done can be used again"
    with connected(server.url) as other:
        assert other.paint(type="generate").messages[0]["id"] == 0


def test_jobs_run_concurrently(websocket: WebsocketClient) -> None:
    websocket.send_together({"type": "generate", "id": "long", "n": 1000}, {"type": "generate", "id": "short"})
    jobs = websocket.receive_until_finished(1)
    assert jobs["short"].order[-1] == "done"
    assert jobs["long"].order[-1] != "done"
