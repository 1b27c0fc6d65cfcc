"""A server under load: latencies, goodput, the share of the offline generator's rate, and whether every byte is right.

    python benchmarks/load.py                                         the four standard cases
    python benchmarks/load.py --clients 64 --n 4 --requests 3         closed loop: each asks when it was answered
    python benchmarks/load.py --rate 5 --seconds 60 --kind mixed      open loop: Poisson arrivals, come what may

Starts a server (or takes --url, of a server of the same model, precision and threads). In every round each case runs
between two runs of the offline generator while the server idles, and `served/offline` is the median of their ratios
over the rounds: what else the machine does then touches both. Every answer is held against the offline generator's
bytes of its seed. Latencies of an open loop count from when a request was due, not from when it could be sent.
Queue and first pixel of POSTs are the server's own histograms; websockets see their first pixel themselves.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import httpx
import numpy as np
import torch
import traffic
from rich.console import Console
from rich.table import Table
from serving import Sample, Server, quantiles, raise_descriptor_limit, serve, wait_until_ready
from truth import Truth
from websockets.exceptions import ConnectionClosed

from scanline.model import zoo
from scanline.model.bench.machine import print_json
from scanline.model.precision import DEFAULT, PRECISIONS
from scanline.model.sampling.offline import paint

OFFLINE_IMAGES = 512  # two waves of two cores
SEEDS = 8
WIDTH = 130  # of the table
PATH = "/v1/images/generations"
KINDS = ("json", "npy", "websocket")


@dataclass(frozen=True)
class Case:
    """What is asked for: by so many clients in turn, or at so many requests a second."""

    name: str
    n: int
    kind: str  # of KINDS, or mixed
    clients: int = 0
    requests: int = 1  # of each client
    share: float = 0.0  # of the offline rate; what an open loop asks for
    rate: float = 0.0  # requests a second
    seconds: float = 0.0


STANDARD = (
    Case("256 images in one request", n=256, kind="npy", clients=1),
    Case("64 clients of 4", n=4, kind="json", clients=64, requests=4),
    Case("64 websockets of 4", n=4, kind="websocket", clients=64, requests=4),
    Case("Poisson, 70 % of offline", n=4, kind="mixed", share=0.7, seconds=30),
)


@dataclass
class Outcome:
    """What became of the requests of one case in one round."""

    ratio: float = 0.0  # of the offline rate
    offline: float = 0.0
    seconds: float = 0.0
    images: int = 0  # right ones
    in_time: int = 0  # of those, the ones of requests within the deadline
    wrong: int = 0  # requests
    failed: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    before: dict[Sample, float] = field(default_factory=dict)
    after: dict[Sample, float] = field(default_factory=dict)


class Load:
    """One server, its right answers, and the clients."""

    def __init__(self, server: Server, truth: Truth, deadline: float) -> None:
        self.server, self.truth, self.deadline = server, truth, deadline
        self.numbers = count()

    async def run(self, case: Case, offline: float) -> Outcome:
        """One case, once."""
        outcome = Outcome(before=await asyncio.to_thread(self.server.metrics))
        async with traffic.client(self.server.url) as client:
            began = time.monotonic()
            if case.clients:
                await asyncio.gather(*(self._closed(case, client, outcome) for _ in range(case.clients)))
            else:
                await self._open(case, client, outcome, case.rate or case.share * offline / case.n)
            outcome.seconds = time.monotonic() - began
        outcome.after = await asyncio.to_thread(self.server.metrics)
        return outcome

    async def _closed(self, case: Case, client: httpx.AsyncClient, outcome: Outcome) -> None:
        for _ in range(case.requests):
            await self._ask(case, client, outcome, time.monotonic())

    async def _open(self, case: Case, client: httpx.AsyncClient, outcome: Outcome, rate: float) -> None:
        began, draws = time.monotonic(), np.random.default_rng(0)
        due = np.cumsum(draws.exponential(1 / rate, max(1, int(rate * case.seconds))))
        async with asyncio.TaskGroup() as asking:
            for at in began + due:
                await asyncio.sleep(at - time.monotonic())
                asking.create_task(self._ask(case, client, outcome, at))

    async def _ask(self, case: Case, client: httpx.AsyncClient, outcome: Outcome, due: float) -> None:
        """One request, held against the truth."""
        number = next(self.numbers)
        seed, kind = number % SEEDS, KINDS[number % len(KINDS)] if case.kind == "mixed" else case.kind
        try:
            answer = await self._answer(kind, client, {"n": case.n, "seed": seed})
        except (traffic.RefusedError, ValueError, OSError, httpx.TransportError, ConnectionClosed) as error:
            outcome.failed[f"{type(error).__name__}: {error}"] += 1
            return
        ended = time.monotonic()
        outcome.latencies.append(ended - due)
        if answer.first is not None:
            outcome.firsts.append(answer.first - due)
        if np.array_equal(answer.images, self.truth.images[seed][: case.n]):
            outcome.images += case.n
            outcome.in_time += case.n * (ended - due <= self.deadline)
        else:
            outcome.wrong += 1

    async def _answer(self, kind: str, client: httpx.AsyncClient, fields: dict[str, int]) -> traffic.Answer:
        match kind:
            case "json":
                return await traffic.post_json(client, PATH, fields)
            case "npy":
                return await traffic.post_npy(client, PATH, fields)
        async with traffic.connect_to(self.server.url) as socket:
            return await traffic.over_websocket(socket, fields)


def offline_rate(truth: Truth) -> float:
    """Images a second of the generator without a server."""
    began = time.monotonic()
    paint(truth.model, OFFLINE_IMAGES, seed=0, precision=truth.precision)
    return OFFLINE_IMAGES / (time.monotonic() - began)


def measure(server: Server, truth: Truth, cases: list[Case], rounds: int, deadline: float) -> dict[Case, list[Outcome]]:
    """All cases, round by round, each between two runs of the offline generator."""
    load = Load(server, truth, deadline)
    found: dict[Case, list[Outcome]] = {case: [] for case in cases}
    offline_rate(truth)  # warm
    before = offline_rate(truth)
    for _ in range(rounds):
        for case in cases:
            outcome = asyncio.run(load.run(case, before))
            after = offline_rate(truth)
            outcome.offline = (before + after) / 2
            outcome.ratio = outcome.images / outcome.seconds / outcome.offline
            found[case].append(outcome)
            before = after
    return found


def summary(outcomes: list[Outcome]) -> dict[str, object]:
    """The rounds of a case as numbers: seconds, images/s, shares."""
    requests = sum(len(o.latencies) + o.failed.total() for o in outcomes)
    latencies = np.array([latency for o in outcomes for latency in o.latencies] or [np.nan])
    firsts = [first for o in outcomes for first in o.firsts]
    queue, server_first = (
        np.nanmean([quantiles(o.before, o.after, f"scanline_{name}", 0.5, 0.99) for o in outcomes], axis=0)
        for name in ("request_queue_time_seconds", "time_to_first_token_seconds")
    )
    return {
        "requests": requests,
        "images_per_second": float(np.median([o.images / o.seconds for o in outcomes])),
        "goodput": float(np.median([o.in_time / o.seconds for o in outcomes])),
        "offline_images_per_second": float(np.median([o.offline for o in outcomes])),
        "served_over_offline": float(np.median([o.ratio for o in outcomes])),
        "served_over_offline_of_each_round": [o.ratio for o in outcomes],
        "queue_seconds": queue.tolist(),  # p50, p99; so are those below
        "first_pixel_seconds": np.quantile(firsts, [0.5, 0.99]).tolist() if firsts else server_first.tolist(),
        "request_seconds": np.quantile(latencies, [0.5, 0.99]).tolist(),
        "wrong": sum(o.wrong for o in outcomes),
        "failed": dict(sum((o.failed for o in outcomes), Counter())),
    }


def table(results: dict[str, dict[str, object]], rounds: int, deadline: float) -> Table:
    within = f"within {deadline:g} s" if deadline < float("inf") else "no deadline"
    titles = (
        "case",
        "requests",
        "images/s",
        "served/offline",
        "queue s",
        "first pixel s",
        "request s",
        "wrong",
        "failed",
    )
    shown = Table(
        *titles,
        f"goodput, {within}",
        title=f"medians of {rounds} rounds; share: of the offline rate; latencies p50 / p99",
    )
    for name, found in results.items():
        latencies = (found[key] for key in ("queue_seconds", "first_pixel_seconds", "request_seconds"))
        shown.add_row(
            name,
            str(found["requests"]),
            f"{found['images_per_second']:.1f} of {found['offline_images_per_second']:.1f}",
            f"{found['served_over_offline']:.2f}",
            *(" / ".join(f"{value:.2f}" for value in pair) for pair in latencies),
            str(found["wrong"]),
            str(sum(found["failed"].values())),
            f"{found['goodput']:.1f}",
        )
    return shown


@contextmanager
def served(options: argparse.Namespace, cases: list[Case]) -> Iterator[Server]:
    """The server to measure: the one at --url, or one of its own."""
    if options.url:
        yield Server(wait_until_ready(options.url))
        return
    limits = ["--threads", str(options.threads), "--precision", options.precision]
    limits += ["--slots", str(options.slots), "--max-images-per-request", str(max(case.n for case in cases))]
    with serve(options.model, *limits) as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", help="of a running server; it is started here otherwise")
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--precision", choices=PRECISIONS, default=DEFAULT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--slots", type=int, default=256, help="of the server that is started")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds a request may take to count")
    parser.add_argument("--n", type=int, default=4, help="images of a request")
    parser.add_argument("--kind", choices=(*KINDS, "mixed"), default="json")
    parser.add_argument("--clients", type=int, help="a closed loop of so many")
    parser.add_argument("--requests", type=int, default=3, help="of each client")
    parser.add_argument("--rate", type=float, help="an open loop of so many requests a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true", help="only the last line")
    options = parser.parse_args()
    if options.clients:
        name = f"{options.clients} clients of {options.n}, {options.kind}"
        cases = [Case(name, options.n, options.kind, options.clients, options.requests)]
    elif options.rate:
        name = f"{options.rate:g} requests/s of {options.n}, {options.kind}"
        cases = [Case(name, options.n, options.kind, rate=options.rate, seconds=options.seconds)]
    else:
        cases = list(STANDARD)
    raise_descriptor_limit()
    torch.set_num_threads(options.threads)
    truth = Truth(options.model, options.precision, SEEDS, max(case.n for case in cases))
    with served(options, cases) as server:
        found = measure(server, truth, cases, options.rounds, options.deadline)
    results = {case.name: summary(outcomes) for case, outcomes in found.items()}
    if not options.json:
        Console(width=WIDTH).print(table(results, options.rounds, options.deadline))
    configuration = {name: getattr(options, name) for name in ("model", "precision", "threads", "slots", "rounds")}
    print_json("load", configuration, cases=results)
    sys.exit(any(result["wrong"] or result["failed"] for result in results.values()))


if __name__ == "__main__":
    main()
