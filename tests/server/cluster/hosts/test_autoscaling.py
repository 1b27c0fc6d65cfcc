"""Ray's autoscaler asks for hosts while there is load and ends them later: each request is answered once, as ever."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.hosts import node_provider
from tests.support.hosts.node_provider import ASKED_FOR, HEAD_TYPE, WORKER_TYPE
from tests.support.hosts.three_machines import CPUS, HEAD, REPLICAS, ROOT, SIZE, WORKERS, Machines, documented
from tests.support.hosts.work import painted_alone, work_answered
from tests.support.pictures import painted
from tests.support.waiting import wait_for

SCALED = {
    **{"replicas": None, "min_replicas": 1, "max_replicas": REPLICAS, "upscale_seconds": 2, "downscale_seconds": 12},
    "ingress_replicas": 1,
}
ALONE = {HEAD: 1, **dict.fromkeys(WORKERS, 0)}
FEW = 4  # images of a request, for which one replica is enough
AUTOSCALING: dict[str, Any] = {
    "cluster_name": "scanline",
    "provider": {
        **{"type": "external", "module": f"{node_provider.__name__}.{node_provider.Hosts.__name__}"},
        **{"head": HEAD, "workers": WORKERS, "disable_node_updaters": True},
    },
    "head_node_type": HEAD_TYPE,
    "available_node_types": {
        HEAD_TYPE: {"resources": {"CPU": CPUS[HEAD]}, "max_workers": 0, "node_config": {}},
        WORKER_TYPE: {"resources": {"CPU": SIZE["cpus"]}, "max_workers": len(WORKERS), "node_config": {}},
    },
    "max_workers": len(WORKERS),
    "idle_timeout_minutes": 0.2,
    # `ray up` would fill these in
    **{"setup_commands": [], "head_setup_commands": [], "worker_setup_commands": [], "cluster_synced_files": []},
}
FILE = Path("/tmp/autoscaling.yaml")


def start_with_autoscaler(machines: Machines) -> None:
    """Make a cluster of the head, which asks for other hosts where it needs them."""
    for host in machines.hosts:
        machines.shell(host, "ray stop --force")
    machines.hosts[HEAD].path(FILE).write_text(json.dumps(AUTOSCALING))
    start = f"{documented('ray start --head')} --autoscaling-config={FILE}"
    variables = {"RAY_enable_autoscaler_v2": "1", "PYTHONPATH": str(ROOT)}
    machines.shell(HEAD, start, **variables, **provided(HEAD, HEAD_TYPE))


def provided(host: str, kind: str) -> dict[str, str]:
    """What a host's variables say to Ray's autoscaler."""
    return {"RAY_CLOUD_INSTANCE_ID": host, "RAY_NODE_TYPE_NAME": kind}


def provide(machines: Machines, worker: str, over: threading.Event) -> None:
    """Start and stop a host as the autoscaler asks for it, until it is over."""
    asked_for = machines.hosts[HEAD].path(ASKED_FOR / worker)
    while not over.wait(0.2):
        if asked_for.exists() and not machines.in_cluster(worker):
            machines.rejoin(worker, **provided(worker, WORKER_TYPE))
        elif machines.in_cluster(worker) and not asked_for.exists():
            machines.shell(worker, "ray stop")


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
        start_with_autoscaler(machines)
        machines.deploy(**SCALED)
        wait_for(lambda: machines.replicas() == ALONE and machines.slots(), "a service on the head")
        try:
            hosts = [pool.submit(provide, machines, worker, few_over) for worker in WORKERS]
            few_asked, much_asked, start = pool.submit(few), pool.submit(much), time.monotonic()
            wait_for(lambda: machines.replicas() == dict.fromkeys(ALONE, 1), "a replica on each host")
            print(f"{REPLICAS} replicas {time.monotonic() - start:.1f} s after the first request")
            much_over.set()
            much_asked.result()
            start = time.monotonic()
            wait_for(lambda: machines.replicas() == ALONE, "one replica")
            print(f"one replica {time.monotonic() - start:.1f} s after the last answer of the load")
            wait_for(lambda: not any(map(machines.in_cluster, WORKERS)), "no host but the head")
            print(f"one host {time.monotonic() - start:.1f} s after it")
        finally:
            much_over.set()
            few_over.set()
        print(f"{few_asked.result()} small requests meanwhile")
        for host in hosts:
            host.result()
        work_answered(machines)
    machines.start()
    machines.deploy()
