"""A server left alone with its users: mixed traffic, some of it rude, and an engine killed now and then.

    python benchmarks/soak.py --minutes 30 --kill-every 120

POSTs (pictures, arrays, completions, likelihoods), server-sent events, websockets quick and slow, clients who leave in
the queue, while painting and while streaming, and requests that are wrong. Every answer is held against the offline
generator's bytes of its seed. At the end the server has to be as it was: nothing in its queues and maps, no descriptor
or thread more, no memory that grew. Ends with 1 where anything was lost, wrong or left behind.
"""

import argparse
import asyncio
import json
import os
import random
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
import traffic
from rich.console import Console
from rich.table import Table
from serving import Server, descriptors, resident, serve, threads
from traffic import RefusedError
from truth import KEPT_ROWS, Truth
from websockets.exceptions import ConnectionClosed

from model import zoo
from model.bench.machine import print_json

SEEDS, MOST = 6, 6  # images of a request
GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
SLOTS = 32  # few, so that requests also wait
WARM_SHARE = 0.2  # of the time; memory is compared from then on
GROWTH = 0.05, 16e6  # share of its memory and bytes that a process may differ by: one or the other
SAMPLE_SECONDS = 5.0
LOADING_SECONDS = 30.0  # of an engine's life, in which its memory may grow
EMPTY = ("num_jobs", "num_images_reserved", "num_requests_running", "num_requests_waiting", "num_images_waiting")
BAD = (
    (GENERATIONS, b"{", 400),
    (GENERATIONS, b'{"n": 1e400}', 400),
    (GENERATIONS, b'{"temprature": 1}', 400),
    (GENERATIONS, b'{"n": 1000000}', 400),
    (GENERATIONS, b'{"model": "nobody"}', 404),
    (EDITS, b'{"image": "bm8gcGljdHVyZQ==", "keep_rows": 3}', 400),
    (EDITS, b'{"keep_rows": 3}', 400),
    (LIKELIHOODS, b'{"image": ["!"]}', 400),
    ("/v1/images/nothing", b"{}", 404),
)
BAD_MESSAGES = ("{", "[]", '{"type": "paint"}', '{"type": "generate", "n": 0}', '{"type": "cancel", "id": 7}', b"\x00")


class WrongError(Exception):
    """An answer that is not what the offline generator paints, or that should have been a refusal."""


@dataclass(frozen=True)
class Size:
    """What the server holds at a moment."""

    at: float  # seconds since the soak began
    engine: int | None  # its process id
    api_bytes: int
    engine_bytes: int
    descriptors: int  # of the API's process
    threads: int


class Soak:
    """One server, its users, and what became of them."""

    def __init__(self, server: Server, truth: Truth, options: argparse.Namespace) -> None:
        self.server, self.truth, self.options = server, truth, options
        self.random = random.Random(0)
        self.done: Counter[str] = Counter()  # by user
        self.wrong: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.kills = 0
        self.sizes: list[Size] = []
        height, width, channels = truth.config.image_shape + (1,) * (3 - len(truth.config.image_shape))
        shape = (height, width) if channels == 1 else (height, width, channels)
        self.pictures = {seed: traffic.png(truth.known(seed).reshape(shape)) for seed in truth.images}

    async def run(self) -> None:
        """All users at once, each again and again until time is up; then everybody finishes."""
        self.began = time.monotonic()
        self.ends = self.began + 60 * self.options.minutes
        users: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("JSON", self.json),
            ("array", self.array),
            ("edit", self.edit),
            ("likelihood", self.likelihood),
            ("events", self.events),
            ("edit, events", self.edit_events),
            ("websocket", self.websocket),
            ("websocket, completion", self.completion),
            ("websocket, slow", self.slow_websocket),
            ("websocket, cancelled", self.cancelled),
            ("leaves a POST", self.leaves_post),
            ("leaves events", self.leaves_events),
            ("leaves a websocket", self.leaves_websocket),
            ("bad request", self.bad_request),
            ("bad message", self.bad_message),
        ]
        watching = asyncio.create_task(self.watch())
        killing = asyncio.create_task(self.kill())
        async with traffic.client(self.server.url) as self.client:
            await asyncio.gather(*(self.again(name, user) for name, user in users for _ in range(self.options.each)))
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
            await asyncio.sleep(self.random.random() * self.options.pause)

    def ask(self) -> tuple[int, int, dict[str, Any]]:
        """Seed, images, and the fields that ask for them."""
        seed, n = self.random.randrange(SEEDS), self.random.randint(1, MOST)
        return seed, n, {"seed": seed, "n": n}

    def ask_edit(self) -> tuple[int, int, dict[str, Any]]:
        seed, n, fields = self.ask()
        return seed, n, {**fields, "image": self.pictures[seed], "keep_rows": KEPT_ROWS}

    def hold(self, answer: traffic.Answer, painted: dict[int, np.ndarray], seed: int, n: int) -> None:
        if not np.array_equal(answer.images, painted[seed][:n]):
            raise WrongError("other bytes than the offline generator's")

    async def json(self) -> None:
        seed, n, fields = self.ask()
        self.hold(await traffic.post_json(self.client, GENERATIONS, fields), self.truth.images, seed, n)

    async def array(self) -> None:
        seed, n, fields = self.ask()
        self.hold(await traffic.post_npy(self.client, GENERATIONS, fields), self.truth.images, seed, n)

    async def edit(self) -> None:
        seed, n, fields = self.ask_edit()
        self.hold(await traffic.post_json(self.client, EDITS, fields), self.truth.completed, seed, n)

    async def likelihood(self) -> None:
        seed = self.random.randrange(SEEDS)
        answer = await self.client.post(LIKELIHOODS, json={"image": [self.pictures[seed]]})
        if answer.status_code != 200:
            raise RefusedError(answer.status_code, answer.json()["error"]["code"])
        if answer.json()["data"][0]["bits_per_dim"] != self.truth.bits[seed]:
            raise WrongError("other bits than the offline generator's")

    async def events(self) -> None:
        seed, n, fields = self.ask()
        self.hold(await traffic.events(self.client, GENERATIONS, fields, n), self.truth.images, seed, n)

    async def edit_events(self) -> None:
        seed, n, fields = self.ask_edit()
        self.hold(await traffic.events(self.client, EDITS, fields, n), self.truth.completed, seed, n)

    async def websocket(self, sleep: float = 0.0, **options: Any) -> None:
        async with traffic.connect_to(self.server.url, **options) as socket:
            for _ in range(2):
                seed, n, fields = self.ask()
                self.hold(await traffic.over_websocket(socket, fields, sleep), self.truth.images, seed, n)

    async def slow_websocket(self) -> None:
        await self.websocket(self.options.spell * self.random.random(), max_queue=1)

    async def completion(self) -> None:
        async with traffic.connect_to(self.server.url) as socket:
            seed, n, fields = self.ask_edit()
            self.hold(await traffic.over_websocket(socket, fields), self.truth.completed, seed, n)

    async def cancelled(self) -> None:
        """A job that is cancelled, unless it was done before: either way it is told, and the next one is right."""
        async with traffic.connect_to(self.server.url) as socket:
            await socket.send(json.dumps({"type": "generate", "id": "first", "n": MOST}))
            await asyncio.sleep(self.random.random())
            await socket.send(json.dumps({"type": "cancel", "id": "first"}))
            while True:
                message = await socket.recv()
                if isinstance(message, str) and json.loads(message)["type"] in ("done", "error"):
                    break
            if json.loads(message).get("cancelled") is None:  # done before: what follows is the refusal to cancel it
                refused = json.loads(await socket.recv())
                if refused.get("error", {}).get("code") != "job_not_found":
                    raise WrongError(f"told {refused} where nothing was left to cancel")
            seed, n, fields = self.ask()
            self.hold(await traffic.over_websocket(socket, {**fields, "id": "second"}), self.truth.images, seed, n)

    async def leaves_post(self) -> None:
        await self.leave(self.json())

    async def leaves_events(self) -> None:
        await self.leave(self.events())

    async def leaves_websocket(self) -> None:
        """Without a closing handshake."""
        async with traffic.connect_to(self.server.url) as socket:
            await socket.send(json.dumps({"type": "generate", "n": MOST}))
            await asyncio.sleep(2 * self.random.random())
            socket.transport.abort()

    async def leave(self, work: Awaitable[None]) -> None:
        """Closes the connection in the midst of it."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=2 * self.random.random())
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})

    async def bad_request(self) -> None:
        path, body, status = self.random.choice(BAD)
        answer = await self.client.post(path, content=body, headers={"content-type": "application/json"})
        if answer.status_code != status or not answer.json()["error"]["message"]:
            raise WrongError(f"{answer.status_code} for {body!r}")

    async def bad_message(self) -> None:
        async with traffic.connect_to(self.server.url) as socket:
            for message in BAD_MESSAGES:
                await socket.send(message)
                told = json.loads(await socket.recv())
                if told["type"] != "error" or not told["error"]["message"]:
                    raise WrongError(f"told {told} for {message!r}")
            seed, n, fields = self.ask()
            self.hold(await traffic.over_websocket(socket, fields), self.truth.images, seed, n)

    async def kill(self) -> None:
        """Kills the engine, and the next one, and the next one."""
        while self.options.kill_every:
            await asyncio.sleep(self.options.kill_every)
            if (engine := self.server.engine) and time.monotonic() < self.ends:
                os.kill(engine, signal.SIGKILL)
                self.kills += 1

    async def watch(self) -> None:
        while True:
            self.sizes.append(self.size())
            await asyncio.sleep(SAMPLE_SECONDS)

    def size(self) -> Size:
        api, engine = self.server.pid, self.server.engine
        bytes_of_engine = resident(engine) if engine else 0
        at = time.monotonic() - self.began
        return Size(at, engine, resident(api), bytes_of_engine, descriptors(api), threads(api))


async def settled(server: Server, seconds: float = 120) -> dict[str, float]:
    """What the server's own numbers say once nobody asks for anything, or after so many seconds."""
    give_up = time.monotonic() + seconds
    while True:
        metrics = await asyncio.to_thread(server.metrics)
        left = {name: sum(v for (n, _), v in metrics.items() if n == f"scanline_{name}") for name in EMPTY}
        left["websocket_connections"] = metrics["scanline_websocket_connections", frozenset()]
        if not any(left.values()) or time.monotonic() > give_up:
            return left
        await asyncio.sleep(0.5)


def violations(soak: Soak, before: Size, after: Size, left: dict[str, float]) -> list[str]:
    """A sentence for each thing that is not as it has to be."""
    found = [f"wrong, {times} times: {what}" for what, times in soak.wrong.items()]
    found += [f"lost, {times} times: {what}" for what, times in soak.lost.items()]
    found += [f"{name} is {value:g} and nobody asks for anything" for name, value in left.items() if value]
    if after.descriptors > before.descriptors:
        found.append(f"descriptors were {before.descriptors} and are {after.descriptors}")
    warm = [size for size in soak.sizes if size.at > WARM_SHARE * soak.sizes[-1].at]
    early, late = _ends([size.threads for size in warm])
    if late > early:
        found.append(f"threads were {early:g} and are {late:g}")
    engines: dict[int, list[Size]] = {}
    for size in soak.sizes:
        if size.engine:
            engines.setdefault(size.engine, []).append(size)
    loaded = {
        f"engine {pid}": [size.engine_bytes for size in sizes if size.at - sizes[0].at > LOADING_SECONDS]
        for pid, sizes in engines.items()
    }
    for who, sizes in {"the API": [size.api_bytes for size in warm], **loaded}.items():
        early, late = _ends(sizes)
        if late - early > max(GROWTH[0] * early, GROWTH[1]):
            found.append(f"{who} grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB")
    return found


def _ends(sizes: list[int]) -> tuple[float, float]:
    """The median of the first and of the last quarter; 0 where there is nothing."""
    sizes = sizes or [0]
    quarter = max(1, len(sizes) // 4)
    return float(np.median(sizes[:quarter])), float(np.median(sizes[-quarter:]))


async def soaked(server: Server, truth: Truth, options: argparse.Namespace) -> tuple[Soak, dict[str, Any]]:
    soak = Soak(server, truth, options)
    soak.began = time.monotonic()
    async with traffic.client(server.url) as soak.client:  # what is opened at the first request is open from then on
        for user in (soak.json, soak.likelihood, soak.events, soak.edit, soak.websocket):
            await user()
    await settled(server)
    before = soak.size()
    await soak.run()
    left = await settled(server)
    after = soak.size()
    metrics = await asyncio.to_thread(server.metrics)
    restarts = sum(value for (name, _), value in metrics.items() if name == "scanline_engine_restarts_total")
    found = {
        "done": dict(soak.done),
        "kills": soak.kills,
        "restarts": restarts,
        "before": asdict(before),
        "after": asdict(after),
        "left": left,
        "violations": violations(soak, before, after, left),
    }
    if soak.kills > restarts:
        found["violations"].append(f"{soak.kills} engines were killed and {restarts:g} started anew")
    return soak, found


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
