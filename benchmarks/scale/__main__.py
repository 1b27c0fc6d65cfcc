"""A cluster of many replicas that sleep on one machine: its costs, a prediction for each size, and what is measured.

    python -m benchmarks.scale [--sizes 10,30,100] [--costs FILE] [--router serve]

The costs, unless FILE has them, are those of four replicas: processor seconds of each part and bytes through the
loopback device, for requests of 1 to 1,024 images and of larger ones. What a part costs without load is measured at
each size and extrapolated to the next one. Then each size is measured, in requests of 64 images, 1.5 times as many as
there are slots, and in single images, and predicted (arithmetic.py) with the cores that other programs left to it.
`--router`: requests of 64 and of 4 images at once on ten replicas, by our router or by Serve's.
"""

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import serve as ray_serve
from ray.serve._private.request_router.pow_2_router import PowerOfTwoChoicesRequestRouter

from benchmarks.scale.arithmetic import NETWORK, Cost, Load, predict
from benchmarks.scale.sleeping_replica import IMAGE_SECONDS, SleepingReplica
from benchmarks.serving.client import GENERATIONS, NPY, HttpClient
from benchmarks.serving.server import Server, children, processor_seconds, raise_descriptor_limit, wait_until_ready
from scanline.model import zoo
from scanline.model.formats.model_dir import load_config
from scanline.model.machine import print_json
from scanline.server.cluster import app, application

PARTS = {  # by what a process is called; others are Ray's own of the node
    "ray::ServeReplica:scanline:Ingress": "ingress",
    "ray::ServeReplica:scanline:": "replica",
    "ray::ProxyActor": "proxy",
    "haproxy": "proxy",
    "ray::ServeController": "controller",
}
PORT = 8123
SLOTS, SECONDS = 64, 15.0


def spent() -> Counter[str]:
    """Return processor seconds of each part, bytes of the network, and seconds that the machine's cores were idle."""
    loopback = next(line for line in Path("/proc/net/dev").read_text().splitlines() if "lo:" in line)
    idle = int(Path("/proc/stat").read_text().split()[4]) / os.sysconf("SC_CLK_TCK")
    used = Counter({"clients": time.process_time(), NETWORK: int(loopback.split()[9]), "idle": idle})
    for pid in children(os.getpid()):
        title = Path(f"/proc/{pid}/cmdline").read_text() if Path(f"/proc/{pid}").exists() else ""
        used[next((part for name, part in PARTS.items() if name in title), "nodes")] += processor_seconds(pid)
    return used


async def measure(clients: int = 0, *sizes: int, model: str = zoo.DEFAULT) -> dict[str, Any]:
    """Let so many clients ask for so many images again and again, for each of the sizes.

    Return the images/s and a request's p50 and p99 of each size, the cores that the parts had, used or not, and what
    each part used of them.
    """
    done: dict[int, list[tuple[float, float]]] = {n: [] for n in sizes}
    http = HttpClient(f"http://127.0.0.1:{PORT}")

    async def ask(n: int, number: int) -> None:
        await asyncio.sleep(IMAGE_SECONDS * number / clients)  # else all ask at the same moments
        while True:
            asked = time.monotonic()
            await http.ask(GENERATIONS, {"n": n, "seed": number, "class": "none", "model": model}, NPY)
            done[n].append((time.monotonic(), time.monotonic() - asked))

    tasks = [asyncio.create_task(ask(n, number)) for n in sizes for number in range(clients)]
    await asyncio.sleep(8)
    began, before = time.monotonic(), spent()
    await asyncio.sleep(SECONDS)
    ended, after = time.monotonic(), spent()
    assert not any(task.done() for task in tasks), [task.exception() for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    http.close()
    used = {part: (after[part] - before[part]) / (ended - began) for part in after}
    measured: dict[str, Any] = {"cores": sum(used.values()) - used[NETWORK], "rate": [], "seconds": []}
    for n, requests in done.items():
        seconds = [seconds for end, seconds in requests if began < end < ended]
        measured["rate"].append(n * len(seconds) / (ended - began))
        measured["seconds"].append(np.quantile(seconds, [0.5, 0.99]).tolist())
    measured["used"] = {part: used[part] for part in used if part != "idle"}
    print(clients, sizes, measured, flush=True)
    return measured


@contextmanager
def sleeping(replicas: int, slots: int, model: str = zoo.DEFAULT) -> Iterator[None]:
    """Start a service of so many replicas that sleep."""
    args = {"model": model, "replicas": replicas, "slots": slots, "cpus": 0.01, "ingress_cpus": 0.01}
    args |= {"max_waiting_images": 10_000_000, "max_overhead_per_second": 1_000_000}  # what a run leaves counts, too
    ray_serve.run(app({**args, "log_level": "warning"}), name="scanline", route_prefix="/")
    server = Server(wait_until_ready(f"http://127.0.0.1:{PORT}"), os.getpid())
    while server.metrics()[("scanline_batch_slots", frozenset({("model_name", model)}))] < replicas * slots:
        time.sleep(0.5)
    try:
        yield
    finally:
        ray_serve.delete("scanline")


def calibrate() -> tuple[dict[str, Cost], dict[int, dict[str, float]]]:
    """Return the costs of each part, and what each costs without load, by the number of replicas."""
    with sleeping(1, SLOTS):
        idle = {1: asyncio.run(measure())["used"]}
    rows, requests = [], []
    for model, loads in ((zoo.DEFAULT, {1: 256, 16: 320, 64: 96, 1024: 16}), ("cifar10-small", {16: 320})):
        with sleeping(4, 4096, model):
            resting = asyncio.run(measure())["used"]
            idle.setdefault(4, resting)
            for n, clients in loads.items():
                run = asyncio.run(measure(clients, n, model=model))
                rows.append((1, Load(4, 4096, IMAGE_SECONDS, n, 0).shards, n, n * _image_bytes(model)))
                requests.append([(run["used"][part] - resting[part]) * n / run["rate"][0] for part in resting])
    fitted = (_fit(np.array(rows), values) for values in np.array(requests).T)
    return dict(zip(resting, (Cost(*costs) for costs in fitted), strict=True)), idle


def _image_bytes(model: str) -> int:
    return load_config(zoo.find(model)).bytes


def _fit(rows: np.ndarray, values: np.ndarray) -> list[float]:
    """Return what each column costs, none less than nothing, with the least relative errors."""
    costs, columns = np.zeros(rows.shape[1]), np.arange(rows.shape[1])
    while values.min() > 0:
        found = np.linalg.lstsq(rows[:, columns] / values[:, None], np.ones(len(values)), rcond=None)[0]
        if found.min() >= 0:
            costs[columns] = found
            break
        columns = np.delete(columns, found.argmin())
    return costs.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: [*map(int, text.split(","))], default=[10, 30, 100])
    parser.add_argument("--costs", type=Path, default=Path("scanline-costs.json"), help="is read, or written")
    parser.add_argument("--router", choices=["scanline", "serve"])
    options = parser.parse_args()
    raise_descriptor_limit()
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    ray_serve.start(http_options={"port": PORT})
    application.Replica = SleepingReplica
    if options.router:
        if options.router == "serve":
            application.FewestImagesRouter = PowerOfTwoChoicesRequestRouter
        with sleeping(10, SLOTS):
            asyncio.run(measure(8, 64, 4))
        return
    if options.costs.exists():
        costs, idle = json.loads(options.costs.read_text())
        costs, idle = {part: Cost(**cost) for part, cost in costs.items()}, {int(r): used for r, used in idle.items()}
    else:
        costs, idle = calibrate()
    rows = []
    for replicas in options.sizes:
        for part, cost in costs.items():
            slope, constant = np.polyfit(list(idle), [used[part] for used in idle.values()], 1).tolist()
            costs[part] = replace(cost, replica=slope, idle=constant)
        options.costs.write_text(json.dumps([{part: asdict(cost) for part, cost in costs.items()}, idle]))
        with sleeping(replicas, SLOTS):
            idle[replicas] = asyncio.run(measure())["used"]
            for n, clients in ((64, 3 * replicas // 2), (1, 256)):
                load = Load(replicas, SLOTS, IMAGE_SECONDS, n, _image_bytes(zoo.DEFAULT), clients * n)
                run = asyncio.run(measure(clients, n))
                limits, _ = predict(costs, load, {"replica": replicas}, run["cores"])
                rows.append({"replicas": replicas, "n": n, "limits": limits, **run})
                print(f"{n} images: {run['rate'][0]:.0f} of {min(limits.values()):.0f} images/s: {limits}", flush=True)
    print_json("scale", vars(options), costs={part: asdict(cost) for part, cost in costs.items()}, rows=rows)


if __name__ == "__main__":
    main()
