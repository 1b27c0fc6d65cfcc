"""A server under traffic that a service has to bear: every answer right, and nothing left behind.

    python -m benchmarks.serving.stress soak [--minutes 30] [--kill-every 120] [--pause 30]
    python -m benchmarks.serving.stress hostile [--minutes 10] [--kind-seconds 10] [--kind KIND ...]

Every answer is compared with the offline generator's bytes of its seed. Exits with 1 if one of the bounds that are
printed last does not hold.

soak        all kinds of users (users.py) at once, for a long time, while the engine is killed now and then. At the end
            the server must be as it was: nothing in its queues, no descriptor or thread more, and no memory growth.
hostile     honest clients that ask for a few images again and again, each from an address of its own: alone, and
            together with one hostile client of each kind (hostile_clients.py), which run in a process of their own.
            First each kind is there apart, for --kind-seconds, then all of them together, for --minutes. Stretches
            without hostile clients lie between those with them, so that whatever else the machine does is in both.
            "cores" are processor seconds a second, of the API process, of its engine, and of the hostile clients, which
            take theirs from the server on a small machine. Where every client has an equal share of the engine's time,
            p99 under H hostile clients that paint or score is 1 + H / honest clients times that alone.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.serving.client import Expected
from benchmarks.serving.hostile_clients import Attacker
from benchmarks.serving.server import ROOT, Server, Size, raise_descriptor_limit, serve, total
from benchmarks.serving.users import Seen, Users
from scanline.model import zoo
from scanline.model.machine import print_json

SEEDS = 6
SOAK_IMAGES, HONEST_IMAGES = 6, 4  # of a request, at most
SAMPLE_SECONDS = 1.0
SOAK_LIMITS = (  # few slots, so that requests wait; all users have one address, and many of them are wrong
    *("--slots", "32"),
    *("--max-overhead-per-second", "100000"),
)
SETTLING = 120.0  # seconds that a server has after the last request
WARM_SHARE = 0.2  # of a soak; memory and threads are compared after it
GROWTH_SHARE, GROWTH_BYTES = 0.05, 16e6  # a process may grow in a soak by the larger of the two
LOADING_SECONDS = 30.0  # after an engine's start, in which its memory may grow
EMPTY_METRICS = (
    "num_jobs",
    "num_images_reserved",
    "num_requests_running",
    "num_requests_waiting",
    "num_images_waiting",
    "websocket_connections",
)
HONEST_PAUSE = 0.01  # seconds between two requests of an honest client
ROUNDS = 5  # stretches with all hostile kinds together, each after one without any
ALONE_SHARE, MIN_ALONE = 0.25, 5.0  # of a stretch's time, and seconds: how long the one without hostile clients is
LEAVING = 1.0  # seconds between two stretches
P99_BOUND = 2.0  # under hostile clients over alone
HOSTILE_GROWTH = 40e6  # bytes that the API process may keep


async def settle(server: Server, before: Size, growth: float) -> tuple[Size, dict[str, float]]:
    """Return the server's size and gauges of work in progress once they are back, or after SETTLING seconds."""
    deadline = time.monotonic() + SETTLING
    while True:
        metrics, size = await asyncio.to_thread(server.metrics), server.size()
        left = {name: total(metrics, name) for name in EMPTY_METRICS}
        grown = size.api_bytes - before.api_bytes > growth or size.descriptors > before.descriptors
        if not (grown or any(left.values())) or time.monotonic() > deadline:
            return size, left
        await asyncio.sleep(SAMPLE_SECONDS)


def kill_engine(server: Server) -> int:
    """Kill the engine and return 1; 0 where there is none at the moment."""
    engine = server.engine
    if engine:
        os.kill(engine, signal.SIGKILL)
    return int(engine is not None)


async def soak(server: Server, expected: Expected, options: argparse.Namespace) -> dict[str, Any]:
    users, seen, kills = Users(server.url, expected, options.pause), Seen(), 0

    async def kill_engines(end: float) -> None:
        nonlocal kills
        while options.kill_every and time.monotonic() + options.kill_every < end:
            await asyncio.sleep(options.kill_every)
            kills += kill_engine(server)

    # what is opened at the first request and at the first restart of the engine stays open, so it comes before
    if options.kill_every:
        kills += kill_engine(server)
    for name in ("JSON", "likelihood", "events", "edit", "websocket"):
        await users.kinds()[name]()
    users.client.close()
    before, _ = await settle(server, server.size(), 0)

    end = time.monotonic() + 60 * options.minutes
    async with server.watched(SAMPLE_SECONDS) as sizes, asyncio.TaskGroup() as tasks:
        tasks.create_task(kill_engines(end))
        for name, user in users.kinds().items():
            tasks.create_task(seen.repeat(name, user, end, users.random.random))
    users.client.close()

    after, left = await settle(server, before, 0)
    restarts = total(await asyncio.to_thread(server.metrics), "engine_restarts_total")
    bounds = dict.fromkeys(seen.failures(), False)
    bounds |= {f"{name} is {value:g} without any request": not value for name, value in left.items()}
    bounds[f"descriptors: {before.descriptors} before, {after.descriptors} after"] = (
        after.descriptors <= before.descriptors
    )
    bounds[f"{kills} engines were killed and {restarts:g} restarted"] = kills <= restarts
    bounds |= held_sizes(sizes)
    shown = [asdict(size) for size in sizes[:: max(1, len(sizes) // 60)]]
    return {"done": dict(seen.done), "before": asdict(before), "after": asdict(after), "bounds": bounds, "sizes": shown}


def held_sizes(sizes: list[Size]) -> dict[str, bool]:
    """Return in words what threads and memory were early and late in a soak, and whether they may be so."""
    began, ended = sizes[0].at, sizes[-1].at
    warm = [size for size in sizes if size.at - began > WARM_SHARE * (ended - began)]
    early, late = first_and_last_quarter([size.threads for size in warm])
    held = {f"threads: {early:g} early, {late:g} late": late <= early}
    # each engine process is compared with itself, once it has loaded
    memory = {"the API process": [size.api_bytes for size in warm]}
    for pid in {size.engine for size in sizes if size.engine}:
        own = [size for size in sizes if size.engine == pid]
        memory[f"engine {pid}"] = [size.engine_bytes for size in own if size.at - own[0].at > LOADING_SECONDS]
    for process, sampled in memory.items():
        early, late = first_and_last_quarter(sampled)
        words = f"memory of {process}: {early / 1e6:.0f} MB early, {late / 1e6:.0f} late"
        held[words] = late - early <= max(GROWTH_SHARE * early, GROWTH_BYTES)
    return held


def first_and_last_quarter(values: list[int]) -> tuple[float, float]:
    """Return the medians of the first and of the last quarter; 0 without values."""
    quarter = max(1, len(values) // 4)
    return float(np.median(values[:quarter] or [0])), float(np.median(values[-quarter:] or [0]))


@dataclass
class Stretch(Seen):
    """What the honest clients saw in some stretches of time, and what the processes took meanwhile."""

    seconds: float = 0.0
    processor: Counter[str] = field(default_factory=Counter)  # seconds, by process
    peak_bytes: int = 0  # resident, of the API process
    answers: Counter[str] = field(default_factory=Counter)  # that hostile clients got

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.latencies or [np.nan], share))

    def summary(self) -> dict[str, Any]:
        """Return everything but the single latencies."""
        return {**vars(self), "latencies": None, "p50": self.quantile(0.5), "p99": self.quantile(0.99)}

    async def run(self, server: Server, honest: list[Users], seconds: float, kinds: list[str]) -> None:
        """Let honest clients ask together with hostile ones of these kinds, none or more, and add what they see."""
        began, before, process = time.monotonic(), processor(server), None
        if kinds:
            arguments = (server.url, str(seconds), honest[0].expected.picture(0), *kinds)
            command = [sys.executable, "-m", "benchmarks.serving.hostile_clients", *arguments]
            process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
        async with server.watched(SAMPLE_SECONDS) as sizes:
            end = began + seconds
            await asyncio.gather(
                *(self.repeat("array", partial(user.ask, "array"), end, lambda: HONEST_PAUSE) for user in honest)
            )
        if process is not None:
            out, _ = await process.communicate()
            for answers in json.loads(out).values():
                self.answers.update(answers)
        self.seconds += time.monotonic() - began
        self.processor.update({name: after - before[name] for name, after in processor(server).items()})
        self.peak_bytes = max(self.peak_bytes, *(size.api_bytes for size in sizes))
        await asyncio.sleep(LEAVING)


def processor(server: Server) -> Counter[str]:
    """Return processor seconds of the server's processes and of the hostile clients that have ended, so far."""
    ended = os.times()
    return server.processor() + Counter({"hostile": ended.children_user + ended.children_system})


async def hostile(server: Server, expected: Expected, options: argparse.Namespace) -> dict[str, Any]:
    addresses = [f"127.0.0.{100 + number}" for number in range(options.honest)]
    honest = [Users(server.url, expected, least=HONEST_IMAGES, address=address) for address in addresses]
    pairs: dict[str, tuple[Stretch, Stretch]] = {}

    async def pair(name: str, kinds: list[str], seconds: float) -> None:
        alone, attacked = pairs.setdefault(name, (Stretch(), Stretch()))
        await alone.run(server, honest, max(MIN_ALONE, ALONE_SHARE * seconds), [])
        await attacked.run(server, honest, seconds, kinds)
        p99 = f"p99 {alone.quantile(0.99):.3f} s alone, {attacked.quantile(0.99):.3f} under it"
        print(f"{name}: {p99}, {server.size().api_bytes / 1e6:.0f} MB", file=sys.stderr, flush=True)

    await Stretch().run(server, honest, 5, [])  # warms up
    before = server.size()
    for kind in options.kind if options.kind_seconds else ():
        await pair(kind, [kind], options.kind_seconds)
    for _ in range(ROUNDS if options.minutes else 0):
        await pair("all kinds together", options.kind, 60 * options.minutes / ROUNDS)
    after, _ = await settle(server, before, HOSTILE_GROWTH)
    Console(width=190).print(table(pairs))
    bounds = {
        f"{name}: p99 at most {P99_BOUND:g} times that alone": attacked.quantile(0.99)
        <= P99_BOUND * alone.quantile(0.99)
        for name, (alone, attacked) in pairs.items()
    }
    failures = [failure for pair in pairs.values() for stretch in pair for failure in stretch.failures()]
    bounds["no honest request lost, no wrong byte"] = not failures
    megabytes = [size.api_bytes / 1e6 for size in (before, after)]
    bounds["memory: {:.0f} MB before, {:.0f} after".format(*megabytes)] = (
        after.api_bytes - before.api_bytes <= HOSTILE_GROWTH
    )
    bounds[f"descriptors: {before.descriptors} before, {after.descriptors} after"] = (
        after.descriptors <= before.descriptors
    )
    rows = {name: [stretch.summary() for stretch in pair] for name, pair in pairs.items()}
    return {"rows": rows, "before": asdict(before), "after": asdict(after), "bounds": bounds}


def table(pairs: dict[str, tuple[Stretch, Stretch]]) -> Table:
    columns = ("hostile clients", "requests", "p50 s", "p99 s", "p99 / alone", "lost", "wrong", "cores", "peak MB")
    shown = Table(*columns, "answers to hostile clients", title="honest clients, alone / under hostile ones")
    for name, (alone, attacked) in pairs.items():
        cores = {process: seconds / attacked.seconds for process, seconds in attacked.processor.items()}
        shown.add_row(
            name,
            f"{len(alone.latencies)} / {len(attacked.latencies)}",
            *(f"{alone.quantile(share):.3f} / {attacked.quantile(share):.3f}" for share in (0.5, 0.99)),
            f"{attacked.quantile(0.99) / alone.quantile(0.99):.2f}",
            str(attacked.lost.total() + alone.lost.total()),
            str(attacked.wrong.total() + alone.wrong.total()),
            " ".join(f"{process} {number:.2f}" for process, number in cores.items()),
            f"{attacked.peak_bytes / 1e6:.0f}",
            " ".join(f"{answer}:{count}" for answer, count in attacked.answers.most_common(6)),
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="case", required=True)
    cases = {name: commands.add_parser(name) for name in ("soak", "hostile")}
    for name, minutes in (("soak", 30.0), ("hostile", 10.0)):
        cases[name].add_argument("--model", default=zoo.DEFAULT)
        cases[name].add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
        cases[name].add_argument("--minutes", type=float, default=minutes)
        cases[name].add_argument("--log", type=Path, help="file for the server's log; a temporary one otherwise")
    add = cases["soak"].add_argument
    add("--kill-every", type=float, default=120, help="seconds between two kills of the engine; 0: none")
    add("--pause", type=float, default=30, help="most seconds that a slow reader does not read")
    add = cases["hostile"].add_argument
    kinds = list(Attacker("", 0, "", "").kinds())
    add("--honest", type=int, default=16, help="honest clients, at most 100; by default one for each kind")
    add("--kind-seconds", type=float, default=10, help="with each kind apart; 0: none")
    add("--kind", nargs="+", choices=kinds, default=kinds)
    options = parser.parse_args()
    raise_descriptor_limit()
    torch.set_num_threads(options.threads)
    options.log = options.log or Path(tempfile.mkstemp(prefix=f"scanline-{options.case}-", suffix=".log")[1])
    images, limits, measure = (
        (SOAK_IMAGES, SOAK_LIMITS, soak) if options.case == "soak" else (HONEST_IMAGES, (), hostile)
    )
    expected = Expected(options.model, SEEDS, images, completions=options.case == "soak")
    with serve(options.model, "--threads", str(options.threads), *limits, log=options.log) as server:
        result = asyncio.run(measure(server, expected, options))
    for bound, holds in result["bounds"].items():
        print(f"{'PASS' if holds else 'FAIL'} {bound}")
    print_json(options.case, vars(options), **result)
    sys.exit(not all(result["bounds"].values()))


if __name__ == "__main__":
    main()
