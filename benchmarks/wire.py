"""What an image costs on the wire and in the process that speaks HTTP, in each form of answer.

    python benchmarks/wire.py --images 512 [--model MODEL]
    python benchmarks/wire.py --images 4096 --bare

Bytes and messages are counted as a client gets them: heads and bodies of answers, websocket messages with their 2 or 4
bytes of frame, not what TCP and IP add. Processor time is the API process's own, without the engine's, as Linux counts
it in 10 ms: it tells how many images a second one core of a front can answer. `--bare` paints by a model of random
weights that costs next to nothing, so that images come as fast as the API process takes them, and what it does by the
second weighs little; its pictures are noise, which no PNG makes smaller. Every answer is decoded, and one of each form
is held against another's pixels.
"""

import argparse
import asyncio
import io
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
import traffic
from rich.console import Console
from rich.table import Table
from serving import Server, serve

from scanline.model import zoo
from scanline.model.bench.machine import print_json
from scanline.model.config import ModelConfig
from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer

PATH = "/v1/images/generations"
LARGE = 64  # images of a request; the other size is 1
AT_ONCE = 64  # images in flight
BARE = ModelConfig(28, 28, 1, layers=1, heads=1, key_width=4, value_width=4, feed_forward=4, components=1)


@dataclass
class Taken:
    """What a client got of some images."""

    images: np.ndarray  # [n, N] uint8
    bytes: int
    messages: int


Form = Callable[[httpx.AsyncClient, str, dict[str, Any]], Awaitable[Taken]]


async def as_json(client: httpx.AsyncClient, url: str, fields: dict[str, Any]) -> Taken:
    answer = (await client.post(PATH, json=fields)).raise_for_status()
    pixels = np.stack([traffic.pixels(image["b64_json"]) for image in answer.json()["data"]])
    return Taken(pixels, _head(answer) + len(answer.content), 1)


async def as_npy(client: httpx.AsyncClient, url: str, fields: dict[str, Any]) -> Taken:
    headers = {"accept": "application/x-npy"}
    answer = (await client.post(PATH, json=fields, headers=headers)).raise_for_status()
    array = np.load(io.BytesIO(answer.content))
    return Taken(array.reshape(len(array), -1), _head(answer) + len(answer.content), 1)


def as_events(partial_images: int) -> Form:
    async def ask(client: httpx.AsyncClient, url: str, fields: dict[str, Any]) -> Taken:
        images, length, messages = {}, 0, 0
        asked = {**fields, "stream": True, "partial_images": partial_images}
        async with client.stream("POST", PATH, json=asked) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                length += len(line) + 1
                if line.startswith("data: "):
                    messages += 1
                    event = json.loads(line.removeprefix("data: "))
                    if event["type"].endswith(".completed"):
                        images[event["index"]] = traffic.pixels(event["b64_json"])
            length += _head(answer)
        return Taken(np.stack([images[index] for index in range(fields["n"])]), length, messages)

    return ask


async def as_websocket(client: httpx.AsyncClient, url: str, fields: dict[str, Any]) -> Taken:
    images: dict[int, bytes] = {}
    length = messages = 0
    async with traffic.connect_to(url) as socket:
        await socket.send(json.dumps({"type": "generate", **fields}))
        async for message in socket:
            length += len(message) + (2 if len(message) < 126 else 4)
            messages += 1
            if isinstance(message, bytes):
                _, index, _ = traffic.FRAME.unpack_from(message)
                images[index] = images.get(index, b"") + message[traffic.FRAME.size :]
            elif json.loads(message)["type"] == "done":
                break
    return Taken(np.stack([np.frombuffer(images[index], np.uint8) for index in range(fields["n"])]), length, messages)


FORMS: dict[str, Form] = {
    "JSON": as_json,
    "npy": as_npy,
    "events, no partial images": as_events(0),
    "events, 2 partial images": as_events(2),
    "websocket": as_websocket,
}


async def measure(server: Server, images: int) -> dict[str, dict[str, float]]:
    """Of each form and size of request: bytes, messages and microseconds of the API process, an image."""
    found = {}
    async with traffic.client(server.url) as client:
        await as_npy(client, server.url, {"n": LARGE, "seed": 0})  # warm
        for n in (1, LARGE):
            for name, form in FORMS.items():
                found[f"{name}, n = {n}"] = await _measure(server, client, form, n, images)
    return found


async def _measure(server: Server, client: httpx.AsyncClient, form: Form, n: int, images: int) -> dict[str, float]:
    room, taken = asyncio.Semaphore(AT_ONCE // n), []

    async def ask(seed: int) -> None:
        async with room:
            taken.append((seed, await form(client, server.url, {"n": n, "seed": seed})))

    assert server.pid is not None
    before = _processor_seconds(server.pid)
    async with asyncio.TaskGroup() as asking:
        for seed in range(images // n):
            asking.create_task(ask(seed))
    seconds = _processor_seconds(server.pid) - before
    expected = await as_npy(client, server.url, {"n": n, "seed": 0})
    assert np.array_equal(next(got.images for seed, got in taken if seed == 0), expected.images), "pixels differ"
    painted = sum(len(got.images) for _, got in taken)
    return {
        "bytes": sum(got.bytes for _, got in taken) / painted,
        "messages": sum(got.messages for _, got in taken) / painted,
        "microseconds": 1e6 * seconds / painted,
    }


def _head(answer: httpx.Response) -> int:
    """Bytes of the status line and the headers."""
    return len("HTTP/1.1 200 OK\r\n\r\n") + sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)


def _processor_seconds(pid: int) -> float:
    """That a process alone has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--images", type=int, default=512, help="of each form and size of request")
    parser.add_argument("--bare", action="store_true", help="a model of random weights that costs next to nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.bare:
            torch.manual_seed(0)
            save_model(Transformer(BARE), Path(folder) / "bare")
            options.model = str(Path(folder) / "bare")
        with serve(options.model, "--slots", str(AT_ONCE)) as server:
            found = asyncio.run(measure(server, options.images))
    title = f"an image of {Path(options.model).name}"
    table = Table("form", "bytes", "messages", "microseconds", title=title)
    for name, row in found.items():
        table.add_row(name, f"{row['bytes']:,.0f}", f"{row['messages']:.2f}", f"{row['microseconds']:,.0f}")
    Console(width=100).print(table)
    print_json("wire", vars(options), **found)


if __name__ == "__main__":
    main()
