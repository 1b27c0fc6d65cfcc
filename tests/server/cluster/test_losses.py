"""Engines and replicas killed in the middle of a request: the next one paints the same bytes."""

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.support.cluster.cluster_service import ALLOWED, Service, kill, offline
from tests.support.pictures import painted
from tests.support.server.running_server import PATIENCE
from tests.support.server.websocket_client import connected

Victim = Callable[[Service], int]

VICTIMS: list[Victim] = [lambda service: service.engines()[0], lambda service: service.replicas()[0]]
NAMES = ["engine", "replica"]


def kill_in_work(service: Service, victim: Victim) -> int:
    """Kill a process of one replica while both replicas are painting; return its id."""
    deadline = time.monotonic() + PATIENCE
    while not all(one.stats.images_running for one in service.statuses()):
        assert time.monotonic() < deadline, service.statuses()
    process = victim(service)
    kill(process)
    return process


@pytest.mark.parametrize("victim", VICTIMS, ids=NAMES)
def test_a_request_survives_a_loss_with_the_same_bytes(service: Service, victim: Victim) -> None:
    answers: list[np.ndarray] = []

    def ask() -> None:
        with service.client() as client:
            answers.append(painted(client.post("/v1/images/generations", json={"n": 400, "seed": 11}).json()))

    asking = threading.Thread(target=ask)
    asking.start()
    killed = kill_in_work(service, victim)
    asking.join(PATIENCE)
    assert np.array_equal(answers[0], offline(400, 11))
    service.wait_for_replicas(2)
    assert killed not in (*service.engines(), *service.replicas())


@pytest.mark.parametrize("victim", VICTIMS, ids=NAMES)
def test_a_stream_continues_where_it_was(service: Service, victim: Victim) -> None:
    with connected(service.url, additional_headers=ALLOWED) as painter:
        painter.send(type="generate", id="a", n=256, seed=12)
        while painter.receive().order[-1] != "frame 0":
            pass
        kill_in_work(service, victim)
        job = painter.receive_until_finished(1)["a"]
    assert job.messages[-1]["type"] == "done"
    assert np.array_equal(job.images().reshape(256, 28, 28), offline(256, 12))
    assert sorted(what for what in job.order if what.startswith("image")) == sorted(f"image {i}" for i in range(256))
    service.wait_for_replicas(2)


def test_an_engine_exits_with_its_replica(service: Service) -> None:
    replica = service.replicas()[0]
    engines = service.engines()
    kill(replica)
    service.wait_for_replicas(2)
    assert len(set(engines) & set(service.engines())) == 1


def test_a_replica_whose_engine_does_not_come_back_is_replaced(service: Service) -> None:
    doomed = service.replicas()[0]
    deadline = time.monotonic() + PATIENCE
    while doomed in service.replicas():
        for engine in service.engines_of(doomed):
            kill(engine)
        time.sleep(0.05)
        assert time.monotonic() < deadline
    service.wait_for_replicas(2)
    with service.client() as client:
        answer = client.post("/v1/images/generations", json={"n": 64, "seed": 14})
    assert np.array_equal(painted(answer.json()), offline(64, 14))
