"""A server under mixed traffic for a long time, part of it hostile, while its engine is killed now and then.

    python -m benchmarks.serving.soak --minutes 30 --kill-every 120

POSTs (pictures, arrays, completions, likelihoods), server-sent events, fast and slow websockets, clients that leave in
the queue, while painting and while streaming, and wrong requests. Every answer is compared with the offline generator's
bytes of its seed. At the end the server must be as it was: nothing in its queues, no descriptor or thread more, and no
memory growth. Exits with 1 if anything was lost, wrong or left behind.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from websockets.exceptions import ConnectionClosed

from benchmarks.serving.client import TIMEOUT, RefusedError, http_client
from benchmarks.serving.expected import Expected
from benchmarks.serving.server import Server, descriptors, resident, serve, threads
from benchmarks.serving.soak_users import MOST, SEEDS, Users, WrongError
from scanline.model import zoo
from scanline.model.bench.machine import print_json

SLOTS = 32  # few, so that requests also wait
OVERHEAD = 100_000  # units a second of one client: all users of a soak have one address, and many of them are wrong
SAMPLE_SECONDS = 5.0
WARM_SHARE = 0.2  # of the time; memory and threads are compared after it
GROWTH_SHARE, GROWTH_BYTES = 0.05, 16e6  # a process may grow by the larger of the two
LOADING_SECONDS = 30.0  # after an engine's start, in which its memory may grow
EMPTY_METRICS = (
    "num_jobs",
    "num_images_reserved",
    "num_requests_running",
    "num_requests_waiting",
    "num_images_waiting",
    "websocket_connections",
)


@dataclass(frozen=True)
class Size:
    """What the server holds at one moment."""

    at: float  # seconds since the soak began
    engine: int | None  # process id
    api_bytes: int
    engine_bytes: int
    descriptors: int  # of the API process
    threads: int  # of the API process


class Soak:
    """One server, its users, and the results of their requests."""

    def __init__(self, server: Server, users: Users, options: argparse.Namespace) -> None:
        self.server, self.users, self.options = server, users, options
        self.done: Counter[str] = Counter()  # by user
        self.wrong: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.kills = 0
        self.sizes: list[Size] = []
        self.start = self.end = time.monotonic()

    async def run(self) -> None:
        """Runs all users at once, each again and again until the time is up; then every request is finished."""
        self.start = time.monotonic()
        self.end = self.start + 60 * self.options.minutes
        background = [asyncio.create_task(self._sample_sizes()), asyncio.create_task(self._kill_engines())]
        await asyncio.gather(*(self._repeat(name, user) for name, user in self.users.kinds().items()))
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)

    def kill_engine(self) -> None:
        if engine := self.server.engine:
            os.kill(engine, signal.SIGKILL)
            self.kills += 1

    def size(self) -> Size:
        assert self.server.pid is not None
        api, engine = self.server.pid, self.server.engine
        engine_bytes = resident(engine) if engine else 0
        at = time.monotonic() - self.start
        return Size(at, engine, resident(api), engine_bytes, descriptors(api), threads(api))

    async def _repeat(self, name: str, user: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < self.end:
            try:
                async with asyncio.timeout(TIMEOUT):
                    await user()
                self.done[name] += 1
            except WrongError as error:
                self.wrong[f"{name}: {error}"] += 1
            except (RefusedError, ValueError, KeyError, OSError, httpx.HTTPError, ConnectionClosed) as error:
                self.lost[f"{name}: {type(error).__name__} {error}"] += 1
                await asyncio.sleep(1)
            await asyncio.sleep(self.users.random.random())  # seconds

    async def _kill_engines(self) -> None:
        while self.options.kill_every:
            await asyncio.sleep(self.options.kill_every)
            if time.monotonic() < self.end:
                self.kill_engine()

    async def _sample_sizes(self) -> None:
        while True:
            self.sizes.append(self.size())
            await asyncio.sleep(SAMPLE_SECONDS)


async def settle(server: Server, seconds: float = 120) -> dict[str, float]:
    """Waits until the server's gauges of work in progress are 0, or for `seconds`; returns them."""
    deadline = time.monotonic() + seconds
    while True:
        left = {name: await asyncio.to_thread(server.total, name) for name in EMPTY_METRICS}
        if not any(left.values()) or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.5)


def left_behind(before: Size, sizes: list[Size], after: Size, left: dict[str, float]) -> list[str]:
    """A sentence for everything that the server has more of than before; `sizes` were sampled in between."""
    found = [f"{name} is {value:g} without any request" for name, value in left.items() if value]
    if after.descriptors > before.descriptors:
        found.append(f"descriptors were {before.descriptors} and are {after.descriptors}")
    warm = [size for size in sizes if size.at > WARM_SHARE * sizes[-1].at]
    early, late = first_and_last_quarter([size.threads for size in warm])
    if late > early:
        found.append(f"threads were {early:g} and are {late:g}")
    # Each engine process is compared with itself, once it has loaded.
    held = {"the API process": [size.api_bytes for size in warm]}
    for pid in {size.engine for size in sizes if size.engine}:
        own = [size for size in sizes if size.engine == pid]
        held[f"engine {pid}"] = [size.engine_bytes for size in own if size.at - own[0].at > LOADING_SECONDS]
    for process, sampled in held.items():
        early, late = first_and_last_quarter(sampled)
        if late - early > max(GROWTH_SHARE * early, GROWTH_BYTES):
            found.append(f"{process} grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB")
    return found


def first_and_last_quarter(values: list[int]) -> tuple[float, float]:
    """The medians of the first and of the last quarter; 0 without values."""
    if not values:
        return 0.0, 0.0
    quarter = max(1, len(values) // 4)
    return float(np.median(values[:quarter])), float(np.median(values[-quarter:]))


async def measure(server: Server, expected: Expected, options: argparse.Namespace) -> tuple[Soak, dict[str, Any]]:
    users = Users(server.url, expected, options.pause)
    soak = Soak(server, users, options)
    # What is opened at the first request and at the first restart of the engine stays open, so it comes before.
    async with users.client:
        if options.kill_every:
            soak.kill_engine()
        for user in (users.json, users.likelihood, users.events, users.edit, users.websocket):
            await user()
    await settle(server)
    before = soak.size()
    users.client = http_client(server.url)
    async with users.client:
        await soak.run()
    left = await settle(server)
    after = soak.size()
    restarts = await asyncio.to_thread(server.total, "engine_restarts_total")
    violations = [f"wrong, {times} times: {what}" for what, times in soak.wrong.items()]
    violations += [f"lost, {times} times: {what}" for what, times in soak.lost.items()]
    violations += left_behind(before, soak.sizes, after, left)
    if soak.kills > restarts:
        violations.append(f"{soak.kills} engines were killed and {restarts:g} restarted")
    return soak, {
        "done": dict(soak.done),
        "kills": soak.kills,
        "restarts": restarts,
        "before": asdict(before),
        "after": asdict(after),
        "left": left,
        "violations": violations,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument(
        "--kill-every", type=float, default=120, help="seconds between two kills of the engine; 0: none"
    )
    parser.add_argument("--pause", type=float, default=30, help="most seconds that a slow reader does not read")
    parser.add_argument("--log", type=Path, help="file for the server's log; a temporary one otherwise")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    expected = Expected(options.model, "exact", SEEDS, MOST, completions=True)
    options.log = options.log or Path(tempfile.mkstemp(prefix="scanline-soak-", suffix=".log")[1])
    limits = ("--slots", str(SLOTS), "--max-overhead-per-second", str(OVERHEAD))
    with serve(options.model, "--threads", str(options.threads), *limits, log=options.log) as server:
        soak, result = asyncio.run(measure(server, expected, options))
    print(f"server log: {options.log}")
    for name, value in result.items():
        print(f"{name}: {value}")
    sizes = [asdict(size) for size in soak.sizes[:: max(1, len(soak.sizes) // 60)]]
    print_json("soak", vars(options), **result, sizes=sizes)
    sys.exit(bool(result["violations"]))


if __name__ == "__main__":
    main()
