"""A server left alone with its users: mixed traffic, some of it rude, and an engine killed now and then.

    python benchmarks/soak.py --minutes 30 --kill-every 120

POSTs (pictures, arrays, completions, likelihoods), server-sent events, websockets quick and slow, clients who leave in
the queue, while painting and while streaming, and requests that are wrong. Every answer is held against the offline
generator's bytes of its seed. At the end the server has to be as it was: nothing in its queues and maps, no descriptor
or thread more, no memory that grew. Ends with 1 where anything was lost, wrong or left behind.
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
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import torch
import traffic
from left_behind import Size, left_behind, settled, size_of
from rich.console import Console
from rich.table import Table
from serving import Server, serve
from traffic import RefusedError
from truth import Truth
from users import MOST, SEEDS, Users, WrongError
from websockets.exceptions import ConnectionClosed

from scanline.model import zoo
from scanline.model.bench.machine import print_json

SLOTS = 32  # few, so that requests also wait
SAMPLE_SECONDS = 5.0


class Soak:
    """One server, its users, and what became of them."""

    def __init__(self, server: Server, users: Users, options: argparse.Namespace) -> None:
        self.server, self.users, self.options = server, users, options
        self.done: Counter[str] = Counter()  # by user
        self.wrong: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.kills = 0
        self.sizes: list[Size] = []

    async def run(self) -> None:
        """All users at once, each again and again until time is up; then everybody finishes."""
        self.began = time.monotonic()
        self.ends = self.began + 60 * self.options.minutes
        watching = asyncio.create_task(self.watch())
        killing = asyncio.create_task(self.kill())
        each = range(self.options.each)
        await asyncio.gather(*(self.again(name, user) for name, user in self.users.kinds().items() for _ in each))
        for task in (killing, watching):
            task.cancel()
        await asyncio.gather(killing, watching, return_exceptions=True)

    async def again(self, name: str, user: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < self.ends:
            try:
                async with asyncio.timeout(traffic.PATIENCE):
                    await user()
                self.done[name] += 1
            except WrongError as error:
                self.wrong[f"{name}: {error}"] += 1
            except (RefusedError, ValueError, KeyError, OSError, httpx.HTTPError, ConnectionClosed) as error:
                self.lost[f"{name}: {type(error).__name__} {error}"] += 1
                await asyncio.sleep(1)
            await asyncio.sleep(self.users.random.random() * self.options.pause)

    async def kill(self) -> None:
        """Kills the engine, and the next one, and the next one."""
        while self.options.kill_every:
            await asyncio.sleep(self.options.kill_every)
            if time.monotonic() < self.ends:
                self.kill_one()

    def kill_one(self) -> None:
        if engine := self.server.engine:
            os.kill(engine, signal.SIGKILL)
            self.kills += 1

    async def watch(self) -> None:
        while True:
            self.sizes.append(size_of(self.server, self.began))
            await asyncio.sleep(SAMPLE_SECONDS)


async def soaked(server: Server, truth: Truth, options: argparse.Namespace) -> tuple[Soak, dict[str, Any]]:
    users = Users(server.url, truth, options.spell)
    soak = Soak(server, users, options)
    async with users.client:  # what is opened at the first request, and at an engine's first death, stays open
        if options.kill_every:
            soak.kill_one()
        for user in (users.json, users.likelihood, users.events, users.edit, users.websocket):
            await user()
    await settled(server)
    before = size_of(server, time.monotonic())
    users.client = traffic.client(server.url)
    async with users.client:
        await soak.run()
    left = await settled(server)
    after = size_of(server, soak.began)
    metrics = await asyncio.to_thread(server.metrics)
    restarts = sum(value for (name, _), value in metrics.items() if name == "scanline_engine_restarts_total")
    violations = [f"wrong, {times} times: {what}" for what, times in soak.wrong.items()]
    violations += [f"lost, {times} times: {what}" for what, times in soak.lost.items()]
    violations += left_behind(before, soak.sizes, after, left)
    if soak.kills > restarts:
        violations.append(f"{soak.kills} engines were killed and {restarts:g} started anew")
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
        "--kill-every", type=float, default=120, help="seconds between two deaths of an engine; 0: none"
    )
    parser.add_argument("--each", type=int, default=1, help="users of each kind")
    parser.add_argument("--pause", type=float, default=1, help="seconds, at most, between two requests of a user")
    parser.add_argument("--spell", type=float, default=30, help="seconds, at most, that a slow reader does not read")
    parser.add_argument("--log", type=Path, help="the server's; shown where it fails otherwise")
    parser.add_argument("--json", action="store_true", help="only the last line")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    truth = Truth(options.model, "exact", SEEDS, MOST, completions=True)
    log = options.log or Path(tempfile.mkstemp(prefix="scanline-soak-", suffix=".log")[1])
    with serve(options.model, "--threads", str(options.threads), "--slots", str(SLOTS), log=log) as server:
        soak, result = asyncio.run(soaked(server, truth, options))
    if not options.json:
        table = Table(
            "", "", title=f"{options.minutes:g} minutes, {soak.kills} engines killed; the server's log: {log}"
        )
        for name, value in result.items():
            table.add_row(name, "\n".join(value) or "none" if name == "violations" else str(value))
        Console().print(table)
    sizes = [asdict(size) for size in soak.sizes[:: max(1, len(soak.sizes) // 60)]]
    print_json("soak", {**vars(options), "log": str(log)}, **result, sizes=sizes)
    sys.exit(bool(result["violations"]))


if __name__ == "__main__":
    main()
