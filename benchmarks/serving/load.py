"""A server under load: latencies, its rate relative to the offline generator's, and whether every byte is right.

    python -m benchmarks.serving.load [--model MODEL] [--rounds 3]

In every round each case runs between two runs of the offline generator while the server idles; `served/offline` is the
median of their ratios over the rounds, so that whatever else the machine does affects both. Every answer is compared
with the offline generator's bytes of its seed. Latencies of Poisson arrivals count from when a request was due, not
from when it was sent. "queue" and "first pixel" of POSTs come from the server's own histograms; websockets time their
first pixel themselves.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from websockets.exceptions import ConnectionClosed

from benchmarks.serving.client import (
    GENERATIONS,
    Answer,
    RefusedError,
    http_client,
    open_websocket,
    over_websocket,
    post_json,
    post_npy,
)
from benchmarks.serving.expected import Expected
from benchmarks.serving.server import Sample, Server, quantiles, raise_descriptor_limit, serve
from scanline.model import zoo
from scanline.model.bench.machine import print_json
from scanline.model.precision import DEFAULT, PRECISIONS
from scanline.model.sampling.offline import paint

OFFLINE_IMAGES = 512  # two waves on two cores
SEEDS = 8
KINDS = ("json", "npy", "websocket")


@dataclass(frozen=True)
class Case:
    """What is requested: by a number of clients in a closed loop, or by Poisson arrivals."""

    name: str
    n: int  # images of a request
    kind: str  # of KINDS, or mixed
    clients: int = 0
    requests: int = 1  # of each client
    share: float = 0.0  # Poisson arrivals: of the offline rate, for so many seconds
    seconds: float = 0.0


STANDARD = (
    Case("256 images in one request", n=256, kind="npy", clients=1),
    Case("64 clients of 4", n=4, kind="json", clients=64, requests=4),
    Case("64 websockets of 4", n=4, kind="websocket", clients=64, requests=4),
    Case("Poisson, 70 % of offline", n=4, kind="mixed", share=0.7, seconds=30),
)


@dataclass
class Outcome:
    """The requests of one case in one round."""

    offline: float = 0.0  # images a second of the offline generator, before and after
    ratio: float = 0.0  # served over offline
    seconds: float = 0.0
    images: int = 0  # right ones
    wrong: int = 0  # requests
    failed: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    before: dict[Sample, float] = field(default_factory=dict)
    after: dict[Sample, float] = field(default_factory=dict)


class Load:
    """One server, the images it must return, and its clients."""

    def __init__(self, server: Server, expected: Expected) -> None:
        self.server, self.expected = server, expected
        self.numbers = count()

    async def run(self, case: Case, offline: float) -> Outcome:
        """Runs one case once; `offline` is the rate that `case.share` is a share of."""
        outcome = Outcome(before=await asyncio.to_thread(self.server.metrics))
        async with http_client(self.server.url) as client:
            start = time.monotonic()
            if case.clients:
                await asyncio.gather(*(self._closed_loop(case, client, outcome) for _ in range(case.clients)))
            else:
                await self._open_loop(case, client, outcome, case.share * offline / case.n)
            outcome.seconds = time.monotonic() - start
        outcome.after = await asyncio.to_thread(self.server.metrics)
        return outcome

    async def _closed_loop(self, case: Case, client: httpx.AsyncClient, outcome: Outcome) -> None:
        for _ in range(case.requests):
            await self._request(case, client, outcome, time.monotonic())

    async def _open_loop(self, case: Case, client: httpx.AsyncClient, outcome: Outcome, rate: float) -> None:
        gaps = np.random.default_rng(0).exponential(1 / rate, max(1, int(rate * case.seconds)))
        async with asyncio.TaskGroup() as tasks:
            for due in time.monotonic() + np.cumsum(gaps):
                await asyncio.sleep(due - time.monotonic())
                tasks.create_task(self._request(case, client, outcome, due))

    async def _request(self, case: Case, client: httpx.AsyncClient, outcome: Outcome, due: float) -> None:
        number = next(self.numbers)
        seed = number % SEEDS
        kind = KINDS[number % len(KINDS)] if case.kind == "mixed" else case.kind
        try:
            answer = await self._answer(kind, client, {"n": case.n, "seed": seed})
        except (RefusedError, ValueError, OSError, httpx.TransportError, ConnectionClosed) as error:
            outcome.failed[f"{type(error).__name__}: {error}"] += 1
            return
        outcome.latencies.append(time.monotonic() - due)
        if answer.first is not None:
            outcome.firsts.append(answer.first - due)
        if np.array_equal(answer.images, self.expected.images[seed][: case.n]):
            outcome.images += case.n
        else:
            outcome.wrong += 1

    async def _answer(self, kind: str, client: httpx.AsyncClient, fields: dict[str, int]) -> Answer:
        if kind == "json":
            return await post_json(client, GENERATIONS, fields)
        if kind == "npy":
            return await post_npy(client, GENERATIONS, fields)
        async with open_websocket(self.server.url) as socket:
            return await over_websocket(socket, fields)


def offline_rate(expected: Expected) -> float:
    """Images a second of the offline generator."""
    start = time.monotonic()
    paint(expected.model, OFFLINE_IMAGES, seed=0, precision=expected.precision)
    return OFFLINE_IMAGES / (time.monotonic() - start)


def measure(server: Server, expected: Expected, rounds: int) -> dict[str, list[Outcome]]:
    """The standard cases, round by round, each between two runs of the offline generator."""
    load = Load(server, expected)
    found: dict[str, list[Outcome]] = {case.name: [] for case in STANDARD}
    offline_rate(expected)  # warms up
    before = offline_rate(expected)
    for _ in range(rounds):
        for case in STANDARD:
            outcome = asyncio.run(load.run(case, before))
            after = offline_rate(expected)
            outcome.offline = (before + after) / 2
            outcome.ratio = outcome.images / outcome.seconds / outcome.offline
            found[case.name].append(outcome)
            before = after
    return found


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """The rounds of one case: medians of rates, and quantiles (p50, p99) of latencies in seconds."""
    latencies = [latency for outcome in outcomes for latency in outcome.latencies] or [np.nan]
    firsts = [first for outcome in outcomes for first in outcome.firsts]
    queue, server_first = (
        np.nanmean([quantiles(o.before, o.after, f"scanline_{name}", 0.5, 0.99) for o in outcomes], axis=0)
        for name in ("request_queue_time_seconds", "time_to_first_token_seconds")
    )
    failed = sum((outcome.failed for outcome in outcomes), Counter())
    return {
        "requests": sum(len(outcome.latencies) for outcome in outcomes) + failed.total(),
        "images_per_second": float(np.median([o.images / o.seconds for o in outcomes])),
        "offline_images_per_second": float(np.median([o.offline for o in outcomes])),
        "served_over_offline": float(np.median([o.ratio for o in outcomes])),
        "served_over_offline_of_each_round": [o.ratio for o in outcomes],
        "queue_seconds": queue.tolist(),
        "first_pixel_seconds": np.quantile(firsts, [0.5, 0.99]).tolist() if firsts else server_first.tolist(),
        "request_seconds": np.quantile(latencies, [0.5, 0.99]).tolist(),
        "wrong": sum(o.wrong for o in outcomes),
        "failed": dict(failed),
    }


def table(results: dict[str, dict[str, Any]], rounds: int) -> Table:
    latencies = ("queue", "first pixel", "request")
    columns = ("case", "requests", "images/s", "served/offline", *(f"{name} s" for name in latencies))
    shown = Table(*columns, "wrong", "failed", title=f"medians of {rounds} rounds; latencies p50 / p99")
    for name, result in results.items():
        quantiles = (result[f"{latency.replace(' ', '_')}_seconds"] for latency in latencies)
        shown.add_row(
            name,
            str(result["requests"]),
            f"{result['images_per_second']:.1f} of {result['offline_images_per_second']:.1f}",
            f"{result['served_over_offline']:.2f}",
            *(f"{p50:.2f} / {p99:.2f}" for p50, p99 in quantiles),
            str(result["wrong"]),
            str(sum(result["failed"].values())),
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--precision", choices=PRECISIONS, default=DEFAULT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    raise_descriptor_limit()
    torch.set_num_threads(options.threads)
    most = max(case.n for case in STANDARD)
    expected = Expected(options.model, options.precision, SEEDS, most)
    limits = ["--threads", str(options.threads), "--precision", options.precision, "--slots", str(most)]
    with serve(options.model, *limits, "--max-images-per-request", str(most)) as server:
        found = measure(server, expected, options.rounds)
    results = {name: summary(outcomes) for name, outcomes in found.items()}
    Console(width=130).print(table(results, options.rounds))
    print_json("load", vars(options), cases=results)
    sys.exit(any(result["wrong"] or result["failed"] for result in results.values()))


if __name__ == "__main__":
    main()
