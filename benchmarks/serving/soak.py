"""A server under mixed traffic for long, its engine killed now and then: every answer right, nothing left behind.

    python -m benchmarks.serving.soak [--minutes 30] [--kill-every 120] [--pause 30]

All kinds of users (users.py) ask at once. Every answer is compared with the offline generator's bytes of its seed. At
the end the server must be as it was: nothing in its queues, no descriptor or thread more, and no memory growth. Exits
with 1 if one of the bounds that are printed last does not hold.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.serving.client import Expected
from benchmarks.serving.server import Server, Size, raise_descriptor_limit, serve, total
from benchmarks.serving.users import Seen, Users
from scanline.model import zoo
from scanline.model.machine import print_json

SEEDS = 6
IMAGES = 6  # of a request, at most
SAMPLE_SECONDS = 1.0
LIMITS = (  # few slots, so that requests wait; all users have one address, and many of them are wrong
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


async def settle(server: Server, before: Size) -> tuple[Size, dict[str, float]]:
    """Return the server's size and gauges of work in progress once they are back, or after SETTLING seconds."""
    deadline = time.monotonic() + SETTLING
    while True:
        metrics, size = await asyncio.to_thread(server.metrics), server.size()
        left = {name: total(metrics, name) for name in EMPTY_METRICS}
        grown = size.api_bytes > before.api_bytes or size.descriptors > before.descriptors
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
    before, _ = await settle(server, server.size())

    end = time.monotonic() + 60 * options.minutes
    async with server.watched(SAMPLE_SECONDS) as sizes, asyncio.TaskGroup() as tasks:
        tasks.create_task(kill_engines(end))
        for name, user in users.kinds().items():
            tasks.create_task(seen.repeat(name, user, end, users.random.random))
    users.client.close()

    after, left = await settle(server, before)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--log", type=Path, help="file for the server's log; a temporary one otherwise")
    parser.add_argument("--kill-every", type=float, default=120, help="seconds between two kills; 0: none")
    parser.add_argument("--pause", type=float, default=30, help="most seconds that a slow reader does not read")
    options = parser.parse_args()
    raise_descriptor_limit()
    torch.set_num_threads(options.threads)
    options.log = options.log or Path(tempfile.mkstemp(prefix="scanline-soak-", suffix=".log")[1])
    expected = Expected(options.model, SEEDS, IMAGES, completions=True)
    with serve(options.model, "--threads", str(options.threads), *LIMITS, log=options.log) as server:
        result = asyncio.run(soak(server, expected, options))
    for bound, holds in result["bounds"].items():
        print(f"{'PASS' if holds else 'FAIL'} {bound}")
    print_json("soak", vars(options), **result)
    sys.exit(not all(result["bounds"].values()))


if __name__ == "__main__":
    main()
