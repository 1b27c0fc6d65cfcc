"""Machines from measured or computed step times, the mix of requests, and the simulated cases, one table each.

A row is a dictionary of numbers by column. Shares are of a machine's `rate`: every slot in use all the time.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from benchmarks.simulation.autoscaler import Scaling
from benchmarks.simulation.cluster import OVERCOMMIT, Cluster, Faults
from benchmarks.simulation.replica import Machine
from benchmarks.simulation.routing import ROUTERS

Row = dict[str, str | float]

BYTES = 784  # of an image; both machines run the paper's MNIST size, 8 x 8 x 32
STATE_BYTES = 4 * 8 * 8 * 32 * 33  # ModelConfig.state_bytes_per_image

# 2 virtual cores of an AMD EPYC (Zen 4), idle, 2026-11-21, scanline bench (LOG.md): images -> ms a step
CPU_STEPS = {1: 0.14, 4: 0.36, 16: 1.19, 64: 4.35, 256: 17.9}
SERVED = 0.92  # of the offline rate, over HTTP, the same machine (LOG.md)

# H200, computed, nothing measured (LOG.md, "floors and predictions"): 43 launches of 2 us; each image's state read and
# written at 4.3 TB/s (4.8 published); products of 8 layers, 28 to 35 us each for 4,096 images
GPU_FIXED = 43 * 2e-6
GPU_EACH = 2 * STATE_BYTES / 4.3e12 + 8 * 31.5e-6 / 4096

# the mix of requests is an assumption, and a hard one: a twentieth of the requests has four fifths of the images
SIZES, SHARES = (1, 4, 64, 1000), (0.70, 0.25, 0.045, 0.005)
MEAN_SIZE = sum(size * share for size, share in zip(SIZES, SHARES, strict=True))
SMALL = 4  # images of a request whose latency is watched

LEAST_REQUESTS, MOST_REQUESTS = 20_000, 150_000
WARM = 0.2  # of the time of a case, not counted
LOAD = 0.7


def fitted(steps: dict[int, float]) -> tuple[float, float]:
    """Fit (fixed, each) seconds of a step to measured ms, by least squares of relative errors."""
    images, ms = np.array(list(steps)), np.array(list(steps.values()))
    terms = np.stack([np.ones(len(ms)), images], 1) / ms[:, None]
    fixed, each = np.linalg.lstsq(terms, np.ones(len(ms)), rcond=None)[0] / 1e3
    return float(fixed), float(each)


_fixed, _each = fitted(CPU_STEPS)
CPU = Machine("CPU", BYTES, 64, _fixed / SERVED, _each / SERVED)
GPU = Machine("H200 (computed)", BYTES, 4096, GPU_FIXED, GPU_EACH)
MACHINES = (CPU, GPU)

# processor seconds of an ingress for a request and for each image of it, JSON
# (wire.py --bare, machine busy; without Serve)
INGRESS_REQUEST, INGRESS_IMAGE = 2.1e-3, 146e-6
INGRESS_LOAD = 0.7  # of its one core


def ingresses(machine: Machine, replicas: int) -> int:
    """Ingresses that a fully loaded cluster needs, two at least."""
    return max(2, ceil(machine.rate * replicas * (INGRESS_REQUEST / MEAN_SIZE + INGRESS_IMAGE) / INGRESS_LOAD))


def traffic(rates: Sequence[tuple[float, float]], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw times and sizes of requests; rates are (until second, requests a second), in order."""
    draws = np.random.default_rng(seed)
    times, began = [], 0.0
    for until, rate in rates:
        times.append(np.sort(draws.uniform(began, until, draws.poisson(rate * (until - began)))))
        began = until
    together = np.concatenate(times)
    return together, draws.choice(SIZES, len(together), p=SHARES)


def seconds_for(machine: Machine, replicas: int, load: float) -> float:
    """How long a case lasts: twenty images' time, within bounds on the number of requests."""
    rate = load * machine.rate * replicas / MEAN_SIZE
    return min(MOST_REQUESTS, max(LEAST_REQUESTS, 20 * machine.image_seconds(machine.slots) * rate)) / rate


def steady(machine: Machine, replicas: int, seed: int, load: float = LOAD, **options: object) -> Cluster:
    """Run a cluster under steady load."""
    rate = load * machine.rate * replicas / MEAN_SIZE
    cluster = Cluster(machine, replicas, seed, **{"ingresses": ingresses(machine, replicas), **options})
    cluster.run(*traffic([(seconds_for(machine, replicas, load), rate)], seed))
    return cluster


def latencies(cluster: Cluster, first: float, stop: float, *sizes: int) -> np.ndarray:
    """Seconds from arrival to answer of the requests of these sizes that arrived between two times."""
    return np.array([r.done - r.arrived for r in cluster.requests if first <= r.arrived < stop and r.images in sizes])


def columns(cluster: Cluster) -> Row:
    """Columns of a cluster under steady load."""
    stop = cluster.requests[-1].arrived
    small, middle, large = (latencies(cluster, WARM * stop, stop, *sizes) for sizes in ((1, SMALL), (64,), (1000,)))
    samples = slice(int(WARM * stop), int(stop))
    in_flight = np.array(cluster.watched.images[samples]) / cluster.target
    return {
        "in flight per replica": float(in_flight.mean()) if len(in_flight) else np.nan,
        "busiest / mean": float(np.mean(cluster.watched.spread[samples])) if len(in_flight) else np.nan,
        "n <= 4: p50 s": quantile(small, 0.5),
        "p95 s": quantile(small, 0.95),
        "p99 s": quantile(small, 0.99),
        "n = 64: p99 s": quantile(middle, 0.99),
        "n = 1000: p50 s": quantile(large, 0.5),
    }


def quantile(values: np.ndarray, share: float) -> float:
    return float(np.quantile(values, share)) if len(values) else np.nan


def routing(sizes: Sequence[int], seed: int) -> list[Row]:
    """Routers at 70 % of capacity."""
    found: list[Row] = []
    for machine in MACHINES:
        for replicas in sizes:
            for router in routers(machine, replicas):
                cluster = steady(machine, replicas, seed, router=router)
                found.append({"machine": machine.name, "replicas": replicas, "router": router, **columns(cluster)})
    return found


def routers(machine: Machine, replicas: int) -> list[str]:
    """One replica needs no router; a thousand GPUs get 400,000 requests a second, too many to simulate."""
    if replicas == 1:
        return ["random"]
    if machine is GPU and replicas > 10:
        return ["random", "two, by shards", "Serve", "two, by images"] if replicas <= 100 else []
    return list(ROUTERS)


MANY = {CPU: 100, GPU: 10}  # replicas of the cases below


def load(seed: int) -> list[Row]:
    """Images in flight by load: 100 CPU or 10 GPU replicas, Serve's router."""
    return [
        {
            "machine": machine.name,
            "load": share,
            **columns(steady(machine, MANY[machine], seed, share, router="Serve")),
        }
        for machine in MACHINES
        for share in (0.3, 0.5, 0.7, 0.9)
    ]


def shards(seed: int) -> list[Row]:
    """Sizes of shards and overcommit: 100 CPU or 10 GPU replicas at 70 %, Serve's router."""
    found: list[Row] = []
    for machine, shard, overcommit in (
        *((CPU, shard, OVERCOMMIT) for shard in (4, 8, 16, 32, 64, 1000)),
        *((CPU, shard, np.inf) for shard in (4, 16, 64, 1000)),
        *((GPU, shard, OVERCOMMIT) for shard in (32, 256, 1000)),
    ):
        cluster = steady(machine, MANY[machine], seed, router="Serve", shard=shard, overcommit=overcommit)
        found.append(
            {"machine": machine.name, "images in a shard": shard, "overcommit": overcommit, **columns(cluster)}
        )
    return found


def slots(seed: int) -> list[Row]:
    """Slots of a replica: 10 replicas at 70 % of the rate of 64 slots of a CPU, or 4,096 of a GPU."""
    found: list[Row] = []
    for machine, counts in ((CPU, (16, 32, 64, 128, 1024)), (GPU, (1024, 4096, 16_384))):
        for count in counts:
            other = replace(machine, slots=count)
            cluster = steady(other, 10, seed, LOAD * machine.rate / other.rate, router="Serve")
            found.append({"machine": machine.name, "slots": count, "images/s": other.rate, **columns(cluster)})
    return found


STEP_AT, STEP_SECONDS = 60.0, 240.0
OBJECTIVE = {1: 10.0, 64: 30.0}  # seconds for 95 of 100 requests, up to SMALL images and of 64
TARGET = 0.75 * CPU.slots  # images in flight a replica: the server's target_share


def scaling(sizes: Sequence[int], seed: int) -> list[Row]:
    """From 30 % to 300 % of the first replicas' capacity in one step; Serve's autoscaler, at most six times as many."""
    found = [surge(replicas, seed)[1] for replicas in sizes]
    for changed in (
        {"overcommit": np.inf},
        {"several": 9},
        {"several": 9, "overcommit": OVERCOMMIT / 9},
        {"start_seconds": 60.0},
        {"start_seconds": 180.0},
        {"up_delay": 5.0},
        {"bound": 256.0},
    ):
        found.append(surge(10, seed, **changed)[1])
    return found


def surge(
    replicas: int,
    seed: int,
    start_seconds: float = 5.0,
    up_delay: float = 30.0,
    bound: float = np.inf,
    overcommit: float = OVERCOMMIT,
    several: int | None = None,
) -> tuple[Cluster, Row]:
    """Simulate the step of load behind `several` ingresses, None for as many as it needs; return its row."""
    seconds = STEP_SECONDS if replicas < 1000 else STEP_SECONDS / 4
    scales = Scaling(TARGET, most=6 * replicas, least=replicas, up_delay=up_delay)
    options = {
        "router": "Serve",
        "ingresses": several or ingresses(CPU, replicas),
        "bound": bound,
        "overcommit": overcommit,
    }
    cluster = Cluster(CPU, replicas, seed, scaling=scales, start_seconds=start_seconds, **options)
    rate = CPU.rate * replicas / MEAN_SIZE
    stop = STEP_AT + seconds
    cluster.run(*traffic([(STEP_AT, 0.3 * rate), (stop, 3.0 * rate)], seed))
    ready = np.array(cluster.watched.ready)
    requested = cluster.images_refused + sum(request.images for request in cluster.requests)
    row: Row = {
        "replicas": replicas,
        "ingresses": len(cluster.ingresses),
        "start s": start_seconds,
        "up delay s": up_delay,
        "overcommit": overcommit,
        "bound": bound,
        "first new after s": float(np.argmax(ready > replicas) + 1 - STEP_AT) if ready.max() > replicas else np.nan,
        "most replicas": int(ready.max()),
        "most in flight per initial replica": max(cluster.watched.images) / replicas,
        "refused": cluster.images_refused / requested,
    }
    for size, objective in OBJECTIVE.items():
        at, p95 = over_time(cluster, stop, size)
        late = at[(at >= STEP_AT) & (p95 > objective)]
        name = "n <= 4" if size == 1 else f"n = {size}"
        row[f"{name}: worst p95 s"] = float(np.nanmax(p95))
        row[f"within {objective:g} s after"] = float(late[-1] + BUCKET - STEP_AT) if len(late) else 0.0
    return cluster, row


BUCKET = 10.0  # seconds of arrivals for one p95


def over_time(cluster: Cluster, stop: float, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts of buckets, and the p95 of requests of that size that arrived in each; size 1 means up to SMALL."""
    starts = np.arange(0.0, stop, BUCKET)
    sizes = (1, SMALL) if size == 1 else (size,)
    return starts, np.array([quantile(latencies(cluster, at, at + BUCKET, *sizes), 0.95) for at in starts])


def faults(seed: int) -> list[Row]:
    """Deaths, far more frequent than real ones so that there are enough: 100 CPU replicas at 70 %."""
    found: list[Row] = []
    for mean_lifetime, notice in ((np.inf, 1.0), (600.0, 1.0), (600.0, 30.0), (120.0, 1.0)):
        cluster = steady(CPU, 100, seed, router="Serve", faults=Faults(mean_lifetime, notice))
        alive = sum(cluster.watched.ready) / len(cluster.watched.ready)
        found.append(
            {
                "mean lifetime s": mean_lifetime,
                "noticed after s": notice,
                "deaths": cluster.deaths,
                "ready": alive,
                "images lost per death": cluster.lost / BYTES / cluster.deaths if cluster.deaths else 0.0,
                "work lost": cluster.lost / cluster.painted,
                **columns(cluster),
            }
        )
    return found


def restart(sizes: Sequence[int], seed: int) -> list[Row]:
    """All replicas replaced at 70 % of capacity, a fifth (Serve's default) or less at a time."""
    found: list[Row] = []
    for replicas in sizes:
        for share in (0.2, 0.05) if 20 <= replicas < 1000 else (0.2,):
            found.append(_restarted(replicas, share, seed))
    return found


def _restarted(replicas: int, share: float, seed: int) -> Row:
    rate = LOAD * CPU.rate * replicas / MEAN_SIZE
    began, seconds = 60.0, 300.0 if replicas < 1000 else 60.0
    cluster = Cluster(CPU, replicas, seed, router="Serve", ingresses=ingresses(CPU, replicas))
    first = set(cluster.ready)
    cluster.at(began, cluster.restart_all, max(1, int(share * replicas)))
    cluster.run(*traffic([(began + seconds, rate)], seed))
    left = max((replica.at for replica in cluster.replicas if replica in first), default=began)
    over = left + cluster.start_seconds
    before, during = (latencies(cluster, *span, 1, SMALL) for span in ((12.0, began), (began, over)))
    return {
        "replicas": replicas,
        "at a time": max(1, int(share * replicas)),
        "seconds": over - began,
        "least ready": min(cluster.watched.ready),
        "n <= 4: p95 s before": quantile(before, 0.95),
        "p95 s during": quantile(during, 0.95),
        "lost": cluster.lost,
    }
