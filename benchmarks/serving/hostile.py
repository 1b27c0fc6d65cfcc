"""What honest clients notice of hostile ones, and what those leave behind.

    python -m benchmarks.serving.hostile [--minutes 10] [--kind KIND ...] [--apart]

Honest clients ask for a few images again and again, each from an address of its own: first alone, then for `--minutes`
beside one hostile client of each kind (benchmarks/serving/hostile_clients.py), which run in a process of their own.
Every honest answer is compared with the offline generator's bytes of its seed. With `--apart`, one kind after the
other has its share of the time, which tells them apart.

Exits with 1 if an honest client lost an answer or got wrong bytes, if its p99 beside hostile clients is more than
twice that alone, or if memory or descriptors have grown when all have left.
"""

import argparse
import asyncio
import json
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
from benchmarks.serving.server import ROOT, Server, descriptors, raise_descriptor_limit, resident, serve
from scanline.model import zoo
from scanline.model.bench.machine import print_json

HONEST = 8  # clients, who alone keep the engine busy
PAUSE = 0.01  # seconds that an honest client waits between two requests
IMAGES = 4  # of a request
SEEDS = 8
BOUND = 2.0  # of p99 beside hostile clients over p99 alone
SETTLING = 90.0  # seconds after the hostile clients have left
GROWTH = 64e6  # bytes that the API process may keep
SLOW = 1.0  # seconds between two looks at memory


@dataclass
class Seen:
    """What the honest clients saw, and how large the server became."""

    latencies: list[float] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    peak_bytes: int = 0  # resident, of the API process
    peak_descriptors: int = 0

    @property
    def p50(self) -> float:
        return float(np.quantile(self.latencies or [np.nan], 0.5))

    @property
    def p99(self) -> float:
        return float(np.quantile(self.latencies or [np.nan], 0.99))


async def honest(server: Server, expected: Expected, seconds: float) -> Seen:
    """Let HONEST clients ask for images for so long."""
    seen, end = Seen(), time.monotonic() + seconds

    async def one(number: int) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{100 + number}")
        async with httpx.AsyncClient(base_url=server.url, transport=transport, timeout=TIMEOUT) as client:
            await asyncio.sleep(PAUSE * number / HONEST)
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
    await asyncio.gather(*(one(number) for number in range(HONEST)))
    watching.cancel()
    return seen


async def beside(
    server: Server, expected: Expected, kinds: list[str], seconds: float
) -> tuple[Seen, dict[str, dict[str, int]]]:
    """The honest clients beside hostile ones of these kinds, and what those were answered."""
    picture = encode(expected.known(0).reshape(expected.config.height, expected.config.width))
    command = [sys.executable, "-m", "benchmarks.serving.hostile_clients", server.url, str(seconds), picture, *kinds]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    seen = await honest(server, expected, seconds)
    out, _ = await process.communicate()
    return seen, json.loads(out)


async def settled(server: Server, before: tuple[int, int]) -> tuple[int, int]:
    """Bytes and descriptors of the API process once they are back, or after SETTLING seconds."""
    assert server.pid is not None
    end = time.monotonic() + SETTLING
    while True:
        now = resident(server.pid), descriptors(server.pid)
        if (now[0] - before[0] <= GROWTH and now[1] <= before[1]) or time.monotonic() > end:
            return now
        await asyncio.sleep(SLOW)


async def measure(server: Server, expected: Expected, options: argparse.Namespace) -> dict[str, Any]:
    assert server.pid is not None
    await honest(server, expected, 5)  # warms up
    before = resident(server.pid), descriptors(server.pid)
    seconds = 60 * options.minutes
    alone = await honest(server, expected, max(20.0, seconds / 5))
    groups = [[kind] for kind in options.kind] if options.apart else [options.kind]
    rows: dict[str, Seen] = {"alone": alone}
    answers: dict[str, dict[str, int]] = {}
    for group in groups:
        seen, told = await beside(server, expected, group, seconds / len(groups))
        rows[group[0] if options.apart else "beside hostile clients"] = seen
        answers |= told
    after = await settled(server, before)
    violations = [
        f"{name}: p99 {seen.p99:.3f} s, alone {alone.p99:.3f} s"
        for name, seen in rows.items()
        if not seen.p99 <= BOUND * alone.p99
    ]
    violations += [f"{name}: lost {dict(seen.lost)}" for name, seen in rows.items() if seen.lost]
    violations += [f"{name}: {seen.wrong} wrong answers" for name, seen in rows.items() if seen.wrong]
    if after[0] - before[0] > GROWTH:
        violations.append(f"the API process had {before[0] / 1e6:.0f} MB and keeps {after[0] / 1e6:.0f}")
    if after[1] > before[1]:
        violations.append(f"the API process had {before[1]} descriptors and keeps {after[1]}")
    return {"rows": rows, "answers": answers, "before": before, "after": after, "violations": violations}


def table(result: dict[str, Any]) -> Table:
    shown = Table("honest clients", "answers", "p50 s", "p99 s", "lost", "wrong", "peak MB", "peak descriptors")
    for name, seen in result["rows"].items():
        shown.add_row(
            name,
            str(len(seen.latencies)),
            f"{seen.p50:.3f}",
            f"{seen.p99:.3f}",
            str(seen.lost.total()),
            str(seen.wrong),
            f"{seen.peak_bytes / 1e6:.0f}",
            str(seen.peak_descriptors),
        )
    return shown


def main() -> None:
    kinds = list(Attacker("", 0, "", "").kinds())
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kind", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--apart", action="store_true", help="one kind after the other")
    parser.add_argument("--log", type=Path, help="file for the server's log; a temporary one otherwise")
    options = parser.parse_args()
    raise_descriptor_limit()
    options.log = options.log or Path(tempfile.mkstemp(prefix="scanline-hostile-", suffix=".log")[1])
    expected = Expected(options.model, "exact", SEEDS, IMAGES)
    with serve(options.model, log=options.log) as server:
        result = asyncio.run(measure(server, expected, options))
    print(f"server log: {options.log}")
    Console(width=120).print(table(result))
    for kind, outcomes in result["answers"].items():
        print(f"{kind}: {outcomes}")
    for violation in result["violations"]:
        print(f"VIOLATION {violation}")
    rows = {
        name: {**vars(seen), "latencies": None, "p50": seen.p50, "p99": seen.p99}
        for name, seen in result["rows"].items()
    }
    print_json("hostile", {**vars(options), "log": str(options.log)}, **{**result, "rows": rows})
    sys.exit(bool(result["violations"]))


if __name__ == "__main__":
    main()
