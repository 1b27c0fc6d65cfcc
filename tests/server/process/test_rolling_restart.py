"""A server is replaced while clients send it requests: every request is answered, with the bytes of its seed."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from tests.support.pictures import painted
from tests.support.server.running_server import serve
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

URL = "/v1/images/generations"
CLIENTS = 4
LONG = 200  # images of a websocket job that is running when the signal is sent


@dataclass
class Client:
    """Requests images of seed after seed, from the second server as soon as the first one is shutting down."""

    number: int
    addresses: list[str]
    stop: threading.Event
    answers: dict[int, np.ndarray] = field(default_factory=dict)  # by seed
    answered: list[int] = field(default_factory=lambda: [0, 0])  # by each server

    def run(self) -> None:
        seed = self.number
        for position, address in enumerate(self.addresses):
            with httpx.Client(base_url=address, timeout=PATIENCE) as client:
                while not self.stop.is_set() and (images := self.request(client, seed)) is not None:
                    self.answers[seed] = images
                    self.answered[position] += 1
                    seed += CLIENTS
        assert self.stop.is_set(), "the second server has refused a request"

    def request(self, client: httpx.Client, seed: int) -> np.ndarray | None:
        """The images, or None if the server is shutting down or has exited and has accepted nothing."""
        try:
            response = client.post(URL, json={"n": 2, "seed": seed})
        except httpx.ConnectError:
            return None
        if response.status_code == 503:
            assert response.json()["error"]["code"] == "shutting_down"
            return None
        assert response.status_code == 200, response.text
        return painted(response.json())


def wait_for_clients(condition: Callable[[], bool], running: list[Future[None]]) -> None:
    """Returns when the condition holds; fails if a client has failed."""

    def found() -> bool:
        for each in running:
            if each.done():
                each.result()
        return condition()

    wait_for(found, "answers to all clients")


def test_every_request_is_answered_during_a_replacement(grey_directory: Path, grey: Transformer) -> None:
    options = ("--slots", "8", "--drain-seconds", str(PATIENCE), "--max-images-per-request", str(LONG))
    stop = threading.Event()
    with serve(grey_directory, *options) as old, serve(grey_directory, *options) as new, ThreadPoolExecutor() as pool:
        clients = [Client(number, [old.url, new.url], stop) for number in range(CLIENTS)]
        running = [pool.submit(client.run) for client in clients]
        try:
            wait_for_clients(lambda: all(client.answered[0] >= 2 for client in clients), running)
            with connected(old.url) as websocket:
                websocket.send(type="generate", id="long", n=LONG, seed=7)
                websocket.receive()
                old.process.send_signal(signal.SIGTERM)
                wait_for_clients(lambda: all(client.answered[1] >= 2 for client in clients), running)
                long = websocket.receive_until_finished(1)["long"]
        finally:
            stop.set()
        for each in running:
            each.result(PATIENCE)
        assert old.wait_until_exited() == 0
    np.testing.assert_array_equal(long.images(), paint(grey, LONG, seed=7).images)
    for client in clients:
        for seed, images in client.answers.items():
            np.testing.assert_array_equal(images, paint(grey, 2, seed=seed).images.reshape(2, 7, 5))
