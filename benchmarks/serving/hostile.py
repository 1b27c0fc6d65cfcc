"""What honest clients notice of hostile ones, and what those leave behind.

    python -m benchmarks.serving.hostile [--minutes 10] [--kind-seconds 10] [--kind KIND ...]

Honest clients ask for a few images again and again, each from an address of its own: alone, and beside one hostile
client of each kind (benchmarks/serving/hostile_clients.py), which run in a process of their own. First each kind is
there apart, for `--kind-seconds`, then all of them together, for `--minutes`. Stretches without hostile clients lie
between those with them, so that whatever else the machine does is in both. Every honest answer is compared with the
offline generator's bytes of its seed. "cores" are processor seconds a second, of the API process, of its engine, and of
the hostile clients, which take theirs from the server on a small machine.

Where every client has an equal share of the engine's time, p99 beside H hostile clients that paint or score is 1 + H /
honest clients times that alone. Exits with 1 if one of the bounds that are printed last does not hold.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.serving.client import GENERATIONS, TIMEOUT, RefusedError, encode, post_npy
from benchmarks.serving.expected import Expected
from benchmarks.serving.hostile_clients import Attacker
from benchmarks.serving.server import (
    ROOT,
    Server,
    descriptors,
    processor_seconds,
    raise_descriptor_limit,
    resident,
    serve,
)
from scanline.model import zoo
from scanline.model.bench.machine import print_json

PAUSE = 0.01  # seconds that an honest client waits between two requests
IMAGES = 4  # of a request
SEEDS = 8
ROUNDS = 5  # stretches with all kinds together, each after one without any
ALONE_SHARE, LEAST_ALONE = 0.25, 5.0  # of a stretch's time, and seconds: how long the one without hostile clients is
LEAVING = 1.0  # seconds between two stretches
BOUND = 2.0  # of p99 beside hostile clients over p99 alone
SETTLING = 90.0  # seconds after the hostile clients have left
GROWTH = 40e6  # bytes that the API process may keep
SLOW = 1.0  # seconds between two looks at memory
TOGETHER = "all kinds together"


@dataclass
class Seen:
    """What the honest clients saw in some stretches of time, and what the processes took meanwhile."""

    latencies: list[float] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    seconds: float = 0.0
    processor: Counter[str] = field(default_factory=Counter)  # seconds, by process
    peak_bytes: int = 0  # resident, of the API process
    peak_descriptors: int = 0
    answers: Counter[str] = field(default_factory=Counter)  # that hostile clients got

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.latencies or [np.nan], share))

    def cores(self, process: str) -> float:
        return self.processor[process] / max(self.seconds, 1e-9)

    def summary(self) -> dict[str, Any]:
        """Everything but the single latencies."""
        return {**vars(self), "latencies": None, "p50": self.quantile(0.5), "p99": self.quantile(0.99)}


async def ask(server: Server, expected: Expected, clients: int, seconds: float, seen: Seen) -> None:
    """Let honest clients ask for images for so long."""
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{100 + number}")
        async with httpx.AsyncClient(base_url=server.url, transport=transport, timeout=TIMEOUT) as client:
            await asyncio.sleep(PAUSE * number / clients)
            seed = number
            while time.monotonic() < end:
                seed = (seed + 1) % SEEDS
                began = time.monotonic()
                try:
                    answer = await post_npy(client, GENERATIONS, {"n": IMAGES, "seed": seed})
                except (RefusedError, httpx.TransportError) as error:
                    seen.lost[f"{type(error).__name__}: {error}"] += 1
                else:
                    seen.latencies.append(time.monotonic() - began)
                    seen.wrong += not np.array_equal(answer.images, expected.images[seed])
                await asyncio.sleep(PAUSE)

    async def watch() -> None:
        assert server.pid is not None
        while True:
            seen.peak_bytes = max(seen.peak_bytes, resident(server.pid))
            seen.peak_descriptors = max(seen.peak_descriptors, descriptors(server.pid))
            await asyncio.sleep(SLOW)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(one(number) for number in range(clients)))
    watching.cancel()


async def stretch(
    server: Server, expected: Expected, clients: int, seconds: float, kinds: list[str], seen: Seen
) -> None:
    """Honest clients beside hostile ones of these kinds, none or more; what they saw is added to `seen`."""
    process = None
    began, before = time.monotonic(), processor(server)
    if kinds:
        picture = encode(expected.known(0).reshape(expected.config.height, expected.config.width))
        command = [
            sys.executable,
            "-m",
            "benchmarks.serving.hostile_clients",
            server.url,
            str(seconds),
            picture,
            *kinds,
        ]
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    await ask(server, expected, clients, seconds, seen)
    if process is not None:
        out, _ = await process.communicate()
        for answers in json.loads(out).values():
            seen.answers.update(answers)
    seen.seconds += time.monotonic() - began
    seen.processor.update({name: after - before[name] for name, after in processor(server).items()})
    await asyncio.sleep(LEAVING)


def processor(server: Server) -> dict[str, float]:
    """Processor seconds of the server's processes and of the hostile clients that have ended, so far."""
    assert server.pid is not None
    assert server.engine is not None
    ended = os.times()
    hostile = ended.children_user + ended.children_system
    return {"api": processor_seconds(server.pid), "engine": processor_seconds(server.engine), "hostile": hostile}


async def settled(server: Server, before: tuple[int, int]) -> tuple[int, int]:
    """Bytes and descriptors of the API process once they are back, or after SETTLING seconds."""
    assert server.pid is not None
    end = time.monotonic() + SETTLING
    while True:
        now = resident(server.pid), descriptors(server.pid)
        if (now[0] - before[0] <= GROWTH and now[1] <= before[1]) or time.monotonic() > end:
            return now
        await asyncio.sleep(SLOW)


@dataclass
class Result:
    """`pairs`: what was seen alone and beside hostile clients, by the name of their kind."""

    pairs: dict[str, tuple[Seen, Seen]]
    before: tuple[int, int]  # bytes and descriptors of the API process
    after: tuple[int, int]

    def bounds(self) -> dict[str, bool]:
        """Every bound in words, and whether it holds."""
        held = {
            f"{name}: p99 at most {BOUND:g} times that alone": beside.quantile(0.99) <= BOUND * alone.quantile(0.99)
            for name, (alone, beside) in self.pairs.items()
        }
        everything = [seen for pair in self.pairs.values() for seen in pair]
        held["no honest request lost"] = not any(seen.lost for seen in everything)
        held["no wrong byte"] = not any(seen.wrong for seen in everything)
        megabytes = [size / 1e6 for size in (self.before[0], self.after[0])]
        memory = f"memory: {megabytes[0]:.0f} MB before, {megabytes[1]:.0f} after, at most {GROWTH / 1e6:.0f} more"
        held[memory] = self.after[0] - self.before[0] <= GROWTH
        held[f"descriptors: {self.before[1]} before, {self.after[1]} after"] = self.after[1] <= self.before[1]
        return held

    def table(self) -> Table:
        columns = ("hostile clients", "requests", "p50 s", "p99 s", "p99 / alone", "lost", "wrong", "cores", "peak MB")
        shown = Table(*columns, "answers to hostile clients", title="honest clients, alone / beside hostile ones")
        for name, (alone, beside) in self.pairs.items():
            ratio = beside.quantile(0.99) / alone.quantile(0.99)
            shown.add_row(
                name,
                f"{len(alone.latencies)} / {len(beside.latencies)}",
                f"{alone.quantile(0.5):.3f} / {beside.quantile(0.5):.3f}",
                f"{alone.quantile(0.99):.3f} / {beside.quantile(0.99):.3f}",
                f"{ratio:.2f}",
                str(beside.lost.total() + alone.lost.total()),
                str(beside.wrong + alone.wrong),
                " ".join(f"{process} {beside.cores(process):.2f}" for process in beside.processor),
                f"{beside.peak_bytes / 1e6:.0f}",
                " ".join(f"{answer}:{count}" for answer, count in beside.answers.most_common(6)),
            )
        return shown


async def measure(server: Server, expected: Expected, options: argparse.Namespace) -> Result:
    assert server.pid is not None
    api = server.pid

    async def pair(name: str, kinds: list[str], seconds: float) -> None:
        alone, beside = pairs.setdefault(name, (Seen(), Seen()))
        await stretch(server, expected, options.honest, max(LEAST_ALONE, ALONE_SHARE * seconds), [], alone)
        await stretch(server, expected, options.honest, seconds, kinds, beside)
        p99 = f"p99 {alone.quantile(0.99):.3f} s alone, {beside.quantile(0.99):.3f} beside it"
        print(f"{name}: {p99}, {resident(api) / 1e6:.0f} MB", file=sys.stderr, flush=True)

    await ask(server, expected, options.honest, 5, Seen())  # warms up
    before = resident(server.pid), descriptors(server.pid)
    pairs: dict[str, tuple[Seen, Seen]] = {}
    if options.kind_seconds:
        for kind in options.kind:
            await pair(kind, [kind], options.kind_seconds)
    for _ in range(ROUNDS if options.minutes else 0):
        await pair(TOGETHER, options.kind, 60 * options.minutes / ROUNDS)
    return Result(pairs, before, await settled(server, before))


def main() -> None:
    kinds = list(Attacker("", 0, "", "").kinds())
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument(
        "--honest", type=int, default=16, help="honest clients, at most 100; by default one for each kind"
    )
    parser.add_argument("--minutes", type=float, default=10, help="with all kinds together")
    parser.add_argument("--kind-seconds", type=float, default=10, help="with each kind apart; 0: none")
    parser.add_argument("--kind", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--log", type=Path, help="file for the server's log; a temporary one otherwise")
    options = parser.parse_args()
    raise_descriptor_limit()
    options.log = options.log or Path(tempfile.mkstemp(prefix="scanline-hostile-", suffix=".log")[1])
    expected = Expected(options.model, "exact", SEEDS, IMAGES)
    with serve(options.model, log=options.log) as server:
        result = asyncio.run(measure(server, expected, options))
    print(f"server log: {options.log}")
    Console(width=190).print(result.table())
    bounds = result.bounds()
    for bound, holds in bounds.items():
        print(f"{'PASS' if holds else 'FAIL'} {bound}")
    rows = {name: {"alone": one.summary(), "beside": two.summary()} for name, (one, two) in result.pairs.items()}
    sizes = {"before": result.before, "after": result.after}
    print_json("hostile", {**vars(options), "log": str(options.log)}, rows=rows, **sizes, bounds=bounds)
    sys.exit(not all(bounds.values()))


if __name__ == "__main__":
    main()
