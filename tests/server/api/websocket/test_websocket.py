"""The websocket /v1/images/stream sends pixels as they are painted."""

import httpx
import numpy as np

from tests.support.pictures import encode, noise, painted, text
from tests.support.server.running_server import Server
from tests.support.server.websocket_client import WebsocketClient, connected

IMAGE = noise(7, 5)
HOLE = np.full((7, 5), 255, np.uint8)
HOLE[2:5, 1:3] = 0


def test_a_job_begins_with_its_description_and_ends_with_done(websocket: WebsocketClient) -> None:
    job = websocket.paint(type="generate", id="a", n=2, seed=7)
    size = {"height": 7, "width": 5, "channels": 1, "temperature": 1, "guidance": 1}
    assert job.messages[0] == {"type": "started", "id": "a", "job": 0, "model": "grey", "n": 2, "seed": 7, **size}
    assert job.messages[-1] == {"type": "done", "id": "a"}
    assert (job.order[0], job.order[-1]) == ("started", "done")


def test_the_image_message_follows_the_last_frame(websocket: WebsocketClient) -> None:
    order = websocket.paint(type="generate", n=70, seed=7).order
    last = {what: place for place, what in enumerate(order)}
    assert all(last[f"frame {index}"] < last[f"image {index}"] for index in range(70))
    assert sorted(what for what in order if what.startswith("image")) == sorted(f"image {i}" for i in range(70))


def test_frames_concatenate_to_the_images_of_a_post_request(websocket: WebsocketClient, client: httpx.Client) -> None:
    job = websocket.paint(type="generate", n=70, seed=7, temperature=0.8)
    posted = client.post("/v1/images/generations", json={"n": 70, "seed": 7, "temperature": 0.8}).json()
    np.testing.assert_array_equal(job.images(), painted(posted).reshape(70, 35))
    bits = {each["index"]: each["bits_per_dim"] for each in job.messages if each["type"] == "image"}
    assert bits == {each["index"]: each["bits_per_dim"] for each in posted["data"]}


def test_a_completion_sends_its_known_bytes(websocket: WebsocketClient, client: httpx.Client) -> None:
    images = websocket.paint(type="complete", image=text(encode(IMAGE)), keep_rows=4, n=3, seed=7).images()
    np.testing.assert_array_equal(images.reshape(3, 7, 5)[:, :4], np.stack([IMAGE[:4]] * 3))
    fields = {"image": [text(encode(IMAGE)), text(encode(IMAGE.T.reshape(7, 5)))], "mask": text(encode(HOLE))}
    streamed = websocket.paint(type="complete", n=2, seed=7, **fields).images()
    posted = client.post("/v1/images/edits", json={"n": 2, "seed": 7, **fields}).json()
    np.testing.assert_array_equal(streamed, painted(posted).reshape(4, 35))


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


def test_concurrent_jobs_do_not_mix(websocket: WebsocketClient) -> None:
    for seed in range(4):
        websocket.send(type="generate", id=f"seed {seed}", n=30, seed=seed)
    together = websocket.receive_until_finished(4)
    for seed in range(4):
        alone = websocket.paint(type="generate", n=30, seed=seed).images()
        np.testing.assert_array_equal(together[f"seed {seed}"].images(), alone)
