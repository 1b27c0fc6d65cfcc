"""Two real servers behind a proxy of deploy/proxies are restarted in turn: no
client sees an error or another byte.
"""

import threading
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from scanline.model.tasks.offline import paint
from tests.support.pictures import painted
from tests.support.server.infrastructure.nginx_proxy import free_port
from tests.support.server.infrastructure.proxies import proxy_before
from tests.support.server.json_requests import GENERATIONS
from tests.support.server.running_server import Server
from tests.support.server.sse_reader import images, read
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

CLIENTS = 4
LEAST_REQUESTS = 40  # of each client
LONG_JOB = 500  # images: it begins before the first restart, and ends after it


class Client(threading.Thread):
    """Sends one request after the other, until the servers have been
    restarted; every other one is a stream.
    """

    def __init__(self, url, seed, may_stop):
        super().__init__()
        self.url = url
        self.seed = seed
        self.may_stop = may_stop
        self.answers = []  # status, and pixels of the images

    def run(self):
        with httpx.Client(base_url=self.url, timeout=PATIENCE) as client:
            while not self.may_stop.is_set() or len(self.answers) < LEAST_REQUESTS:
                self.answers.append(self._answer(client, bool(len(self.answers) % 2)))

    def _answer(self, client, stream):
        try:
            answer = client.post(GENERATIONS, json={"n": 3, "seed": self.seed, "stream": stream})
        except httpx.HTTPError as error:
            return 0, repr(error).encode()
        if answer.status_code != 200:
            return answer.status_code, answer.content
        pixels = images(read(answer.iter_lines())) if stream else painted(answer.json())
        return 200, pixels.tobytes()


@contextmanager
def clients_of(url):
    """Let clients send requests for as long as the context lasts."""
    may_stop = threading.Event()
    clients = [Client(url, seed, may_stop) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        wait_for(lambda: all(len(client.answers) > 1 for client in clients), "the first answers")
        yield clients
    finally:
        may_stop.set()
        for client in clients:
            client.join()


@pytest.mark.parametrize(
    "name", ["nginx.conf", pytest.param("haproxy.cfg", marks=pytest.mark.slow)]
)
def test_a_restart_of_each_server_in_turn_loses_no_request(grey_directory, grey, tmp_path, name):
    ports = [free_port(), free_port()]

    def started(port):
        server = Server(
            grey_directory,
            "--port",
            str(port),
            "--trusted-proxy",
            "127.0.0.1",
            "--client-share",
            "1",
        )
        server.wait_until_ready()
        return server

    servers = [started(port) for port in ports]
    try:
        with (
            proxy_before(name, [f"127.0.0.1:{port}" for port in ports], tmp_path) as url,
            connected(url) as websocket,
            clients_of(url) as clients,
        ):
            websocket.send(type="generate", id="job", n=LONG_JOB, seed=7)
            websocket.receive()
            for number, port in enumerate(ports):
                servers[number].stop()
                servers[number] = started(port)
                log = servers[number].log
                wait_for(
                    lambda log=log: GENERATIONS in "".join(log),
                    "a request that the proxy passes on",
                )
            # The job was accepted by a server that drained: it has ended
            # in full, and the websocket is closed.
            job = websocket.receive_until_finished(1)["job"]
            assert job.order[-1] == "done"
            np.testing.assert_array_equal(job.images(), paint(grey, LONG_JOB, seed=7).images)
            with connected(url) as next_one:
                assert next_one.paint(type="generate").order[-1] == "done"
    finally:
        for server in servers:
            server.stop()
    for client in clients:
        expected = paint(grey, 3, seed=client.seed).images.tobytes()
        wrong = [answer for answer in client.answers if answer != (200, expected)]
        assert not wrong, (len(client.answers), wrong[:3])
