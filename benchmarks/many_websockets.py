"""Thousands of websockets at once, some of which hardly read: nobody is dropped, and every byte is right.

    python benchmarks/many_websockets.py --websockets 2000 --slow 0.1 --spell 60

All connect first and then ask, each for `--n` images; the slow ones ask for `--slow-n`, have a socket that holds
little, and do not read for `--spell` seconds (no ping is answered meanwhile) once they have heard that their job has
begun. Tells the server's memory and descriptors before, at the peak and after, and how many frames were merged.
"""

import argparse
import asyncio
import os
import socket
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

import numpy as np
import torch
import traffic
from rich.console import Console
from rich.table import Table
from serving import Server, descriptors, raise_descriptor_limit, serve
from truth import Truth
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from scanline.model import zoo
from scanline.model.bench.machine import print_json

SEEDS = 16
OPENING = 64  # handshakes at once
OPENING_ERRORS = (OSError, InvalidHandshake, ConnectionClosed)


class Crowd:
    """The websockets, and what became of them."""

    def __init__(self, server: Server, truth: Truth, options: argparse.Namespace) -> None:
        self.server, self.truth, self.options = server, truth, options
        self.opening = asyncio.Semaphore(OPENING)
        self.right = self.wrong = 0
        self.failed: Counter[str] = Counter()
        self.firsts: list[float] = []
        self.seconds: list[float] = []

    def is_slow(self, number: int) -> bool:
        return number < self.options.slow * self.options.websockets

    async def open(self, number: int) -> ClientConnection | None:
        """A websocket's handshake; None where it failed."""
        try:
            async with self.opening:
                return await traffic.connect_to(self.server.url, **(self._narrow() if self.is_slow(number) else {}))
        except OPENING_ERRORS as error:
            self._fail(number, error)
            return None

    async def paint(self, number: int, websocket: ClientConnection) -> None:
        """A websocket's job, to its last image."""
        slow, seed = self.is_slow(number), number % SEEDS
        n, began = self.options.slow_n if slow else self.options.n, time.monotonic()
        try:
            fields = {"n": n, "seed": seed}
            answer = await traffic.over_websocket(websocket, fields, self.options.spell if slow else 0.0)
            if not slow:
                self.firsts.append(answer.first - began)
                self.seconds.append(time.monotonic() - began)
            right = np.array_equal(answer.images, self.truth.images[seed][:n])
            self.right, self.wrong = self.right + right, self.wrong + (not right)
            await websocket.close()
        except (traffic.RefusedError, ValueError, OSError, ConnectionClosed) as error:
            self._fail(number, error)

    def _fail(self, number: int, error: Exception) -> None:
        self.failed[f"{'slow' if self.is_slow(number) else 'fast'} {type(error).__name__}: {error}"] += 1

    def _narrow(self) -> dict[str, object]:
        """A connection that takes little in advance, so that what is not read stays with the server."""
        place = urlsplit(self.server.url)
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect((place.hostname, place.port))
        return {"sock": narrow, "max_queue": 1}


async def watch(server: Server, peak: dict[str, int]) -> None:
    """Keeps the highest memory and descriptors that the server had."""
    while True:
        found = {"bytes": server.resident(), "descriptors": descriptors(server.pid)}
        peak |= {name: max(value, peak.get(name, 0)) for name, value in found.items()}
        await asyncio.sleep(0.2)


async def measure(server: Server, truth: Truth, options: argparse.Namespace) -> dict[str, object]:
    crowd, peak = Crowd(server, truth, options), {}
    before = {"bytes": server.resident(), "descriptors": descriptors(server.pid)}
    watching = asyncio.create_task(watch(server, peak))
    opened = await asyncio.gather(*(crowd.open(number) for number in range(options.websockets)))
    began = time.monotonic()
    await asyncio.gather(*(crowd.paint(number, websocket) for number, websocket in enumerate(opened) if websocket))
    seconds = time.monotonic() - began
    watching.cancel()
    metrics = await asyncio.to_thread(server.metrics)
    total = {name: sum(v for (n, _), v in metrics.items() if n == f"scanline_{name}") for name in TOLD}
    return {
        "right": crowd.right,
        "wrong": crowd.wrong,
        "failed": dict(crowd.failed),
        "seconds": seconds,
        "first_pixel_seconds": np.quantile(crowd.firsts or [np.nan], [0.5, 0.99]).tolist(),
        "image_seconds": np.quantile(crowd.seconds or [np.nan], [0.5, 0.99]).tolist(),
        "before": before,
        "peak": peak,
        "after": {"bytes": server.resident(), "descriptors": descriptors(server.pid)},
        "server": total,
    }


TOLD = ("stream_frames_coalesced_total", "num_images_reserved", "websocket_connections")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--slots", type=int, default=1024)
    parser.add_argument("--websockets", type=int, default=2000)
    parser.add_argument("--n", type=int, default=1, help="images of each")
    parser.add_argument("--slow", type=float, default=0.1, help="share of slow readers")
    parser.add_argument("--slow-n", type=int, default=16, help="images of each of those")
    parser.add_argument("--spell", type=float, default=60, help="seconds that those do not read")
    parser.add_argument("--json", action="store_true", help="only the last line")
    options = parser.parse_args()
    raise_descriptor_limit()
    torch.set_num_threads(options.threads)
    truth = Truth(options.model, "exact", SEEDS, max(options.n, options.slow_n))
    with serve(options.model, "--threads", str(options.threads), "--slots", str(options.slots)) as server:
        result = asyncio.run(measure(server, truth, options))
    if not options.json:
        table = Table("", "", title=f"{options.websockets} websockets, {options.slow:.0%} of them slow")
        for name, value in result.items():
            table.add_row(name, str(value))
        Console().print(table)
    print_json("many_websockets", vars(options), **result)
    sys.exit(bool(result["wrong"] or result["failed"] or result["right"] != options.websockets))


if __name__ == "__main__":
    main()
