"""The stand-alone server and services of one and two replicas on Ray Serve, one core each, in turns.

    python -m benchmarks.cluster [--rounds 1]

All in one run on one machine, so that its other load affects all of them; every answer is compared with the
offline generator's bytes. On two cores, two replicas share them with the ingress, Serve's proxy and the clients.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
import torch
from ray import serve as ray_serve
from rich.console import Console

from benchmarks.serving.client import Expected
from benchmarks.serving.load import Case, Suite, measure, offline_generator
from benchmarks.serving.outcome import summary, table
from benchmarks.serving.server import Server, raise_descriptor_limit, serve, wait_until_ready
from scanline.model import zoo
from scanline.model.machine import print_json
from scanline.server.cluster import app

PORT = 8123
SEEDS = 8
SUITE = Suite(
    (
        Case("one image after the other", n=1, kind="json", clients=1, requests=20),
        Case("512 images in one request", n=512, kind="npy", clients=1),
        Case("64 clients of 4", n=4, kind="json", clients=64, requests=4),
        Case("64 websockets of 4", n=4, kind="websocket", clients=64, requests=4),
    ),
    offline=512,
)


@contextmanager
def clustered(replicas: int, slots: int, **others: Any) -> Iterator[Server]:
    """Start a service of so many replicas, each on one thread."""
    args = {"model": zoo.DEFAULT, "replicas": replicas, "cpus": 1, "ingress_cpus": 0.5, "slots": slots, **others}
    ray_serve.run(app(args), name="scanline", route_prefix="/")
    url = wait_until_ready(f"http://127.0.0.1:{PORT}")
    server = Server(url)
    while server.metrics()[("scanline_batch_slots", frozenset({("model_name", args["model"])}))] < replicas * slots:
        time.sleep(0.5)
    try:
        yield server
    finally:
        ray_serve.delete("scanline")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--slots", type=int, default=256, help="of each replica, and of the stand-alone server")
    options = parser.parse_args()
    raise_descriptor_limit()
    torch.set_num_threads(1)
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")  # 15 otherwise
    expected = Expected(zoo.DEFAULT, SEEDS, max(case.n for case in SUITE.cases))
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    ray_serve.start(http_options={"port": PORT})
    kinds = {
        "stand-alone": lambda: serve(zoo.DEFAULT, "--threads", "1", "--slots", str(options.slots)),
        "1 replica": lambda: clustered(1, options.slots),
        "2 replicas": lambda: clustered(2, options.slots),
    }
    outcomes: dict[str, dict[str, list]] = {kind: {case.name: [] for case in SUITE.cases} for kind in kinds}
    with offline_generator(expected, SUITE.offline) as offline:
        for _ in range(options.rounds):
            for kind, start in kinds.items():
                with start() as server:
                    for name, rounds in asyncio.run(measure(server, expected, SUITE, offline)).items():
                        outcomes[kind][name] += rounds
    results = {kind: {name: summary(rounds) for name, rounds in cases.items()} for kind, cases in outcomes.items()}
    for kind, cases in results.items():
        print(kind)
        Console(width=190).print(table(cases, options.rounds))
    print_json("cluster", {"slots": options.slots, "rounds": options.rounds}, cases=results)


if __name__ == "__main__":
    main()
