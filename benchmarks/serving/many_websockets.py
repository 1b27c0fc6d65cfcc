"""Thousands of websockets at once, some of them slow readers: none is dropped, and every byte is right.

    python -m benchmarks.serving.many_websockets --websockets 2000 --slow 0.1 --pause 60

All connect first and then request one image each. Slow readers request 16, have a small socket buffer, and read nothing
(nor answer pings) for `--pause` seconds after their job has started. Reports the memory and descriptors of the server
before, at the peak and after, and how many frames were merged.
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
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from benchmarks.serving.client import RefusedError, open_websocket, over_websocket
from benchmarks.serving.expected import Expected
from benchmarks.serving.server import Server, descriptors, raise_descriptor_limit, serve
from scanline.model import zoo
from scanline.model.bench.machine import print_json

SEEDS = 16
HANDSHAKES = 64  # at once
SLOW_IMAGES = 16  # of a slow reader's job
METRICS = ("stream_frames_coalesced_total", "num_images_reserved", "websocket_connections")


class Websockets:
    """All connections, and the results of their jobs."""

    def __init__(self, server: Server, expected: Expected, options: argparse.Namespace) -> None:
        self.server, self.expected, self.options = server, expected, options
        self.handshakes = asyncio.Semaphore(HANDSHAKES)
        self.right = self.wrong = 0
        self.failed: Counter[str] = Counter()

    def is_slow(self, number: int) -> bool:
        return number < self.options.slow * self.options.websockets

    async def connect(self, number: int) -> ClientConnection | None:
        """Returns the connection, or None if the handshake failed."""
        options: dict[str, object] = {}
        if self.is_slow(number):  # keep what is not read in the server, not in this process
            address = urlsplit(self.server.url)
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.connect((address.hostname, address.port))
            options = {"sock": narrow, "max_queue": 1}
        try:
            async with self.handshakes:
                return await open_websocket(self.server.url, **options)
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            self._fail(number, error)
            return None

    async def paint(self, number: int, websocket: ClientConnection) -> None:
        """Runs one job to its last image and compares it."""
        slow, seed = self.is_slow(number), number % SEEDS
        n = SLOW_IMAGES if slow else 1
        try:
            pause = self.options.pause if slow else 0.0
            answer = await over_websocket(websocket, {"n": n, "seed": seed}, pause)
            if np.array_equal(answer.images, self.expected.images[seed][:n]):
                self.right += 1
            else:
                self.wrong += 1
            await websocket.close()
        except (RefusedError, ValueError, OSError, ConnectionClosed) as error:
            self._fail(number, error)

    def _fail(self, number: int, error: Exception) -> None:
        self.failed[f"{'slow' if self.is_slow(number) else 'fast'} {type(error).__name__}: {error}"] += 1


def size_of(server: Server) -> dict[str, int]:
    assert server.pid is not None
    return {"bytes": server.resident(), "descriptors": descriptors(server.pid)}


async def keep_peak(server: Server, peak: dict[str, int]) -> None:
    """Updates `peak` with the largest sizes seen, until it is cancelled."""
    while True:
        for name, value in size_of(server).items():
            peak[name] = max(value, peak.get(name, 0))
        await asyncio.sleep(0.2)


async def measure(server: Server, expected: Expected, options: argparse.Namespace) -> dict[str, object]:
    websockets = Websockets(server, expected, options)
    before, peak = size_of(server), size_of(server)
    watching = asyncio.create_task(keep_peak(server, peak))
    opened = await asyncio.gather(*(websockets.connect(number) for number in range(options.websockets)))
    start = time.monotonic()
    jobs = [websockets.paint(number, connection) for number, connection in enumerate(opened) if connection]
    await asyncio.gather(*jobs)
    seconds = time.monotonic() - start
    watching.cancel()
    return {
        "right": websockets.right,
        "wrong": websockets.wrong,
        "failed": dict(websockets.failed),
        "seconds": seconds,
        "before": before,
        "peak": peak,
        "after": size_of(server),
        "metrics": {name: await asyncio.to_thread(server.total, name) for name in METRICS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--websockets", type=int, default=2000)
    parser.add_argument("--slow", type=float, default=0.1, help="share of slow readers")
    parser.add_argument("--pause", type=float, default=60, help="seconds that slow readers do not read")
    options = parser.parse_args()
    raise_descriptor_limit()
    torch.set_num_threads(options.threads)
    expected = Expected(options.model, "exact", SEEDS, SLOW_IMAGES)
    with serve(options.model, "--threads", str(options.threads), "--slots", "1024") as server:
        result = asyncio.run(measure(server, expected, options))
    for name, value in result.items():
        print(f"{name}: {value}")
    print_json("many_websockets", vars(options), **result)
    sys.exit(result["right"] != options.websockets)


if __name__ == "__main__":
    main()
