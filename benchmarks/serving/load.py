"""Load on a server: latencies, rate relative to the offline generator's, costs, and whether every
byte is right.

    python -m benchmarks.serving.load [standard | one-image] [--model MODEL] [--rounds ROUNDS]

Every answer is compared with the offline generator's bytes of its seed. In every round each case
runs between two runs of the offline generator while the server idles; `served/offline` is the
median of their ratios over the rounds, so that whatever else the machine does affects both.
Latencies of Poisson arrivals count from when a request was due, not from when it was sent. "queue"
and "first pixel" of POSTs come from the server's own histograms; websockets time their first pixel
themselves. "API ms" and "engine ms" are the processor time of these processes for an image.

standard    many images in one request, many clients, many websockets, Poisson arrivals
one-image   one image on a kept connection beside one image offline, in turns

Images beside floods of another client: tests/server/api/test_floods.py, which prints them.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from websockets.asyncio.client import ClientConnection

from benchmarks.serving import client
from benchmarks.serving.client import (
    GENERATIONS,
    LOST,
    Answer,
    Expected,
    HttpClient,
    open_websocket,
    over_websocket,
)
from benchmarks.serving.outcome import Outcome, summary, table
from scanline.model import zoo
from scanline.model.base.machine import print_json
from scanline.model.base.precision import DEFAULT, PRECISIONS
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import loaded_engine, run
from tests.support.server.metrics_reader import Metrics
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import arguments

SEEDS = 8
POSTS: dict[str, Callable[..., Awaitable[Answer]]] = {
    "json": client.post_json,
    "npy": client.post_npy,
}
MIXED = ("json", "npy", "websocket")
OfflineRates = Callable[[], tuple[float, float]]  # images a second, processor seconds of an image


@dataclass(frozen=True)
class Case:
    """What is requested: by a number of clients in a closed loop, or by Poisson arrivals."""

    name: str
    n: int  # images of a request
    kind: str  # of POSTS, websocket or mixed
    clients: int = 0
    requests: int = 1  # of each client
    share: float = 0.0  # Poisson arrivals: of the offline rate, for so many seconds
    seconds: float = 0.0


@dataclass(frozen=True)
class Suite:
    """Cases that are measured together."""

    cases: tuple[Case, ...]
    rounds: int
    offline: int  # images that the offline generator paints between two cases
    slots: int | None = None  # of the server; as it chooses by default


SUITES = {
    "standard": Suite(
        (
            Case("256 images in one request", n=256, kind="npy", clients=1),
            Case("64 clients of 4", n=4, kind="json", clients=64, requests=4),
            Case("64 websockets of 4", n=4, kind="websocket", clients=64, requests=4),
            Case("Poisson, 70 % of offline", n=4, kind="mixed", share=0.7, seconds=30),
        ),
        rounds=3,
        slots=256,
        offline=512,  # two waves on two cores
    ),
    "one-image": Suite((Case("one image", n=1, kind="json", clients=1),), rounds=40, offline=1),
}


class Load:
    """One server, the images it must return, and its clients."""

    def __init__(self, server: Server, expected: Expected) -> None:
        self.server = server
        self.expected = expected
        self.client = HttpClient(server.url)
        self.metrics = server.client()
        self.numbers = count()

    async def run(self, case: Case, offline: float) -> Outcome:
        """Run a case once; `offline` is the rate that `case.share` is a share of."""
        outcome = Outcome(before=Metrics(self.metrics))
        before = processor(self.server)
        await self._requests(case, outcome, offline)
        outcome.processor = processor(self.server)
        outcome.after = Metrics(self.metrics)
        outcome.processor.subtract(before)
        return outcome

    async def _requests(self, case: Case, outcome: Outcome, offline: float) -> None:
        sockets: list[ClientConnection | None] = [None] * case.clients
        if case.kind == "websocket":  # all connect before the first one asks
            sockets = await asyncio.gather(*(open_websocket(self.server.url) for _ in sockets))
        start = time.monotonic()
        if case.clients:
            await asyncio.gather(*(self._closed_loop(case, outcome, socket) for socket in sockets))
        else:
            await self._open_loop(case, outcome, case.share * offline / case.n)
        outcome.seconds = time.monotonic() - start

    async def _closed_loop(
        self, case: Case, outcome: Outcome, websocket: ClientConnection | None
    ) -> None:
        for _ in range(case.requests):
            await self._request(case.kind, case.n, outcome, time.monotonic(), websocket)
        if websocket is not None:
            await websocket.close()

    async def _open_loop(self, case: Case, outcome: Outcome, rate: float) -> None:
        gaps = np.random.default_rng(0).exponential(1 / rate, max(1, int(rate * case.seconds)))
        async with asyncio.TaskGroup() as tasks:
            for due in time.monotonic() + np.cumsum(gaps):
                await asyncio.sleep(due - time.monotonic())
                tasks.create_task(self._request(case.kind, case.n, outcome, due))

    async def _request(
        self,
        kind: str,
        n: int,
        outcome: Outcome,
        due: float,
        websocket: ClientConnection | None = None,
    ) -> None:
        number = next(self.numbers)
        seed = number % SEEDS
        kind = MIXED[number % len(MIXED)] if kind == "mixed" else kind
        try:
            answer = await self._answer(kind, {"n": n, "seed": seed, "class": "none"}, websocket)
        except LOST as error:
            outcome.failed[f"{kind}: {type(error).__name__}: {error}"] += 1
            return
        outcome.latencies.append(time.monotonic() - due)
        if answer.first is not None:
            outcome.firsts.append(answer.first - due)
        if np.array_equal(answer.images, self.expected.images[seed][:n]):
            outcome.images += n
        else:
            outcome.wrong += 1

    async def _answer(
        self, kind: str, fields: dict[str, Any], websocket: ClientConnection | None
    ) -> Answer:
        if kind in POSTS:
            return await POSTS[kind](self.client, GENERATIONS, fields)
        if websocket is not None:
            return await over_websocket(websocket, fields)
        async with open_websocket(self.server.url) as socket:
            return await over_websocket(socket, fields)


def processor(server: Server) -> Counter[str]:
    """Return processor seconds of the API and of the engine so far."""
    api = sum(map(_processor_seconds, server.api_processes() or [server.process.pid]))
    return Counter({"api": api, "engine": sum(map(_processor_seconds, server.engines()))})


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process without its children, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def offline_generator(expected: Expected, images: int) -> Iterator[OfflineRates]:
    """Give what paints so many images at once and returns images a second and processor seconds of
    an image."""

    def rates() -> tuple[float, float]:
        start = time.monotonic()
        processor = time.process_time()
        for _ in run(engine, GenerateRequest(0, images, seed=0)):
            pass
        return images / (time.monotonic() - start), (time.process_time() - processor) / images

    with loaded_engine(expected.model, images, precision=expected.precision) as engine:
        rates()  # warms up
        yield rates


async def measure(
    server: Server, expected: Expected, suite: Suite, offline: OfflineRates
) -> dict[str, list[Outcome]]:
    """Return the outcomes of each case, measured round by round, each between two runs of the
    offline generator."""
    load = Load(server, expected)
    outcomes: dict[str, list[Outcome]] = {case.name: [] for case in suite.cases}
    await load.run(Case("warm", n=1, kind="json", clients=1, requests=3), 0)
    before, _ = offline()
    for _ in range(suite.rounds):
        for case in suite.cases:
            outcome = await load.run(case, before)
            after, outcome.offline_processor = offline()
            outcome.offline = (before + after) / 2
            outcome.ratio = outcome.images / outcome.seconds / outcome.offline
            outcomes[case.name].append(outcome)
            before = after
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", nargs="?", choices=SUITES, default="standard")
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--precision", choices=PRECISIONS, default=DEFAULT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    suite = SUITES[options.suite]
    suite = replace(suite, rounds=options.rounds or suite.rounds)
    torch.set_num_threads(options.threads)
    most = max(case.n for case in suite.cases)
    expected = Expected(options.model, SEEDS, most, options.precision)
    limits = {
        "threads": options.threads,
        "precision": options.precision,
        "max-images-per-request": most,
        # else metrics read twice a round delay what comes after
        "max-overhead-per-second": 100_000,
    }
    if suite.slots is not None:
        limits["slots"] = suite.slots
    with (
        serve(zoo.find(options.model), *arguments(limits), forked=False) as server,
        offline_generator(expected, suite.offline) as offline,
    ):
        outcomes = asyncio.run(measure(server, expected, suite, offline))
    results = {name: summary(rounds) for name, rounds in outcomes.items()}
    Console(width=200).print(table(results, suite.rounds))
    print_json("load", vars(options), cases=results)
    sys.exit(any(result["wrong"] or result["failed"] for result in results.values()))


if __name__ == "__main__":
    main()
