"""Autoscaling on hosts that come while there is load and go afterwards: each request is answered once, as ever."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.support.hosts.three_machines import HEAD, REPLICAS, WORKERS, Machines
from tests.support.hosts.work import painted_alone, work_answered
from tests.support.pictures import painted
from tests.support.waiting import wait_for

SCALED = {
    **{"replicas": None, "min_replicas": 1, "max_replicas": REPLICAS, "upscale_seconds": 2, "downscale_seconds": 12},
    "ingress_replicas": 1,
}
ALONE = {HEAD: 1, **dict.fromkeys(WORKERS, 0)}
FEW = 4  # images of a request, for which one replica is enough


def test_machines_come_for_the_load_and_go_after_it(machines: Machines) -> None:
    few_over, much_over = threading.Event(), threading.Event()

    def few() -> int:
        answered = 0
        with machines.client() as client:
            while not few_over.is_set():
                answer = client.post("/v1/images/generations", json={"n": FEW, "seed": answered % 10})
                assert answer.status_code == 200, answer.text
                images = painted(answer.json()).reshape(FEW, -1)
                assert np.array_equal(images, painted_alone(machines, answered % 10)[:FEW])
                answered += 1
        return answered

    def much() -> None:
        while not much_over.is_set():
            work_answered(machines)

    with ThreadPoolExecutor() as pool:
        machines.shell(HEAD, "serve shutdown -y")  # a new version of the service would begin with as many replicas
        list(pool.map(lambda worker: machines.shell(worker, "ray stop"), WORKERS))
        machines.deploy(**SCALED)
        wait_for(lambda: machines.replicas() == ALONE and machines.slots(), "a service on the head")
        try:
            few_asked, much_asked, start = pool.submit(few), pool.submit(much), time.monotonic()
            joined = pool.map(machines.rejoin, WORKERS)
            wait_for(lambda: machines.replicas() == dict.fromkeys(ALONE, 1), "a replica on each host")
            list(joined)
            print(f"{REPLICAS} replicas {time.monotonic() - start:.1f} s after `ray start`")
            much_over.set()
            much_asked.result()
            start = time.monotonic()
            wait_for(lambda: machines.replicas() == ALONE, "one replica")
            print(f"one replica {time.monotonic() - start:.1f} s after the last answer of the load")
            list(pool.map(lambda worker: machines.shell(worker, "ray stop"), WORKERS))
        finally:
            much_over.set()
            few_over.set()
        print(f"{few_asked.result()} small requests meanwhile")
        work_answered(machines)
        machines.shell(HEAD, "serve shutdown -y")
        list(pool.map(machines.rejoin, WORKERS))
        machines.deploy()
