"""A server is replaced while clients send it requests: every request is answered, with the bytes of its seed."""

import itertools
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import painted
from tests.support.server.running_server import serve
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

CLIENTS = 4
LONG = 200  # images of a websocket job that is running when the signal is sent


def request(client: httpx.Client, seed: int) -> np.ndarray | None:
    """The images, or None if the server is shutting down or has exited and has accepted nothing."""
    try:
        response = client.post("/v1/images/generations", json={"n": 2, "seed": seed})
    except httpx.ConnectError:
        return None
    if response.status_code == 503:
        assert response.json()["error"]["code"] == "shutting_down"
        return None
    assert response.status_code == 200, response.text
    return painted(response.json())


def test_every_request_is_answered_during_a_replacement(grey_directory: Path, grey: Transformer) -> None:
    options = ("--slots", "8", "--drain-seconds", str(PATIENCE), "--max-images-per-request", str(LONG))
    stop, seeds = threading.Event(), itertools.count()
    answers: dict[int, np.ndarray] = {}  # by seed
    answered = np.zeros((CLIENTS, 2), int)  # by client and server

    def run(number: int, *addresses: str) -> None:
        """Requests of seed after seed, to the second server as soon as the first one is shutting down."""
        for position, address in enumerate(addresses):
            with httpx.Client(base_url=address, timeout=PATIENCE) as client:
                while not stop.is_set() and (images := request(client, seed := next(seeds))) is not None:
                    answers[seed] = images
                    answered[number, position] += 1
        assert stop.is_set(), "the second server has refused a request"

    def have_been_answered(position: int) -> bool:
        for client in clients:
            if client.done():
                client.result()
        return bool((answered[:, position] >= 2).all())

    with serve(grey_directory, *options) as old, serve(grey_directory, *options) as new, ThreadPoolExecutor() as pool:
        clients = [pool.submit(run, number, old.url, new.url) for number in range(CLIENTS)]
        try:
            wait_for(lambda: have_been_answered(0), "answers of the first server")
            with connected(old.url) as websocket:
                websocket.send(type="generate", id="long", n=LONG, seed=7)
                websocket.receive()
                old.process.send_signal(signal.SIGTERM)
                wait_for(lambda: have_been_answered(1), "answers of the second server")
                long = websocket.receive_until_finished(1)["long"]
        finally:
            stop.set()
        for client in clients:
            client.result(PATIENCE)
        assert old.wait_until_exited() == 0
    np.testing.assert_array_equal(long.images(), paint(grey, LONG, seed=7).images)
    for seed, images in answers.items():
        np.testing.assert_array_equal(images, paint(grey, 2, seed=seed).images.reshape(2, 7, 5))
