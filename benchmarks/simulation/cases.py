"""Machines from measured or computed step times, the mix of requests, and the simulated cases, one table each.

A row is a dictionary of numbers by column. Shares are of a machine's `rate`: every slot in use all the time.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from benchmarks.simulation.autoscaler import Scaling
from benchmarks.simulation.cluster import OVERCOMMIT, Cluster
from benchmarks.simulation.replica import Machine
from benchmarks.simulation.routing import ROUTERS

Row = dict[str, str | float]

STEPS = 784  # of an image; both machines run the paper's MNIST size, 8 x 8 x 32, whose step is a byte
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
CPU = Machine("CPU", STEPS, 64, _fixed / SERVED, _each / SERVED)
GPU = Machine("H200 (computed)", STEPS, 4096, GPU_FIXED, GPU_EACH)
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


def steady(machine: Machine, replicas: int, seed: int, load: float = LOAD, **options: object) -> Row:
    """Run a cluster under steady load; return its columns."""
    rate = load * machine.rate * replicas / MEAN_SIZE
    cluster = Cluster(machine, replicas, seed, **{"ingresses": ingresses(machine, replicas), **options})
    cluster.run(*traffic([(seconds_for(machine, replicas, load), rate)], seed))
    stop = cluster.requests[-1].arrived
    samples = slice(int(WARM * stop), int(stop))
    in_flight = np.array(cluster.watched.images[samples]) / replicas
    return {
        "in flight per replica": float(in_flight.mean()) if len(in_flight) else np.nan,
        "busiest / mean": float(np.mean(cluster.watched.spread[samples])) if len(in_flight) else np.nan,
        "n <= 4: p95 s": p95(cluster, WARM * stop, stop, 1, SMALL),
        "n = 1000: p95 s": p95(cluster, WARM * stop, stop, 1000),
    }


def p95(cluster: Cluster, first: float, stop: float, *sizes: int) -> float:
    """95 of 100 requests of these sizes that arrived between two times were answered in so many seconds."""
    seconds = [r.done - r.arrived for r in cluster.requests if first <= r.arrived < stop and r.images in sizes]
    return float(np.quantile(seconds, 0.95)) if seconds else np.nan


def routing(sizes: Sequence[int], seed: int) -> list[Row]:
    """Routers of CPU replicas at 70 % of capacity."""
    return [
        {"replicas": replicas, "router": router} | steady(CPU, replicas, seed, router=router)
        for replicas in sizes
        for router in (ROUTERS if replicas > 1 else ["random"])
    ]


MANY = {CPU: 100, GPU: 10}  # replicas of the cases below


def load(sizes: Sequence[int], seed: int) -> list[Row]:
    """Images in flight by load: 100 CPU or 10 GPU replicas, Serve's router."""
    return [
        {"machine": machine.name, "load": share} | steady(machine, MANY[machine], seed, share, router="Serve")
        for machine in MACHINES
        for share in (0.3, 0.5, 0.7, 0.9)
    ]


def shards(sizes: Sequence[int], seed: int) -> list[Row]:
    """Sizes of shards: 100 CPU or 10 GPU replicas at 70 %, Serve's router."""
    return [
        {"machine": machine.name, "images in a shard": shard}
        | steady(machine, MANY[machine], seed, router="Serve", shard=shard)
        for machine, counts in ((CPU, (4, 16, 64, 1000)), (GPU, (32, 256, 1000)))
        for shard in counts
    ]


def slots(sizes: Sequence[int], seed: int) -> list[Row]:
    """Slots of a replica: 10 replicas at 70 % of the rate of 64 slots of a CPU, or 4,096 of a GPU."""
    found: list[Row] = []
    for machine, counts in ((CPU, (16, 32, 64, 128, 1024)), (GPU, (1024, 4096, 16_384))):
        for count in counts:
            other = replace(machine, slots=count)
            row = steady(other, 10, seed, LOAD * machine.rate / other.rate, router="Serve")
            found.append({"machine": machine.name, "slots": count, "images/s": other.rate, **row})
    return found


STEP_AT, STEP_SECONDS = 60.0, 240.0
OBJECTIVE = 10.0  # seconds for 95 of 100 requests of up to SMALL images
BUCKET = 10.0  # seconds of arrivals for one p95
TARGET = 0.75 * CPU.slots  # images in flight a replica: the server's target_share


def scaling(sizes: Sequence[int], seed: int) -> list[Row]:
    """From 30 % to 300 % of the first replicas' capacity in one step; Serve's autoscaler, at most six times as many."""
    found = [surge(replicas, seed) for replicas in sizes]
    found.append(surge(10, seed, several=9))
    found.append(surge(10, seed, several=9, overcommit=OVERCOMMIT / 9))
    found.append(surge(10, seed, start_seconds=180.0))
    return found


def surge(
    replicas: int,
    seed: int,
    start_seconds: float = 5.0,
    overcommit: float = OVERCOMMIT,
    several: int | None = None,
) -> Row:
    """Simulate the step of load behind `several` ingresses, None for as many as it needs."""
    cluster = Cluster(
        CPU,
        replicas,
        seed,
        router="Serve",
        overcommit=overcommit,
        ingresses=several or ingresses(CPU, replicas),
        start_seconds=start_seconds,
        scaling=Scaling(TARGET, most=6 * replicas),
    )
    rate = CPU.rate * replicas / MEAN_SIZE
    stop = STEP_AT + (STEP_SECONDS if replicas < 1000 else STEP_SECONDS / 4)
    cluster.run(*traffic([(STEP_AT, 0.3 * rate), (stop, 3.0 * rate)], seed))
    present = np.array(cluster.watched.replicas)
    starts = np.arange(0.0, stop, BUCKET)
    small = np.array([p95(cluster, start, start + BUCKET, 1, SMALL) for start in starts])
    late = starts[(starts >= STEP_AT) & (small > OBJECTIVE)]
    return {
        "replicas": replicas,
        "ingresses": len(cluster.ingresses),
        "start s": start_seconds,
        "overcommit": overcommit,
        "first new after s": float(np.argmax(present > replicas) + 1 - STEP_AT) if max(present) > replicas else np.nan,
        "most replicas": int(max(present)),
        "n <= 4: worst p95 s": float(np.nanmax(small)),
        f"within {OBJECTIVE:g} s after": float(late[-1] + BUCKET - STEP_AT) if len(late) else 0.0,
    }


CASES = {case.__name__: case for case in (routing, scaling, load, shards, slots)}
