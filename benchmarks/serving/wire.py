"""What an image costs on the wire and in the API process, in each form of answer.

    python -m benchmarks.serving.wire --images 512 [--model MODEL]
    python -m benchmarks.serving.wire --images 4096 --bare

Bytes and messages are counted as a client receives them: heads and bodies of responses, websocket messages with their
frame headers, nothing of TCP and IP. Microseconds are the processor time of the API process for an image, without the
engine's: they say how many images a second one core of an ingress can answer. `--bare` serves a model of random weights
that costs next to nothing, so that images come as fast as the API process takes them and its fixed costs weigh little;
its pictures are noise, which PNG does not compress. One answer of each form is compared with another form's pixels.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.serving.client import (
    GENERATIONS,
    Answer,
    http_client,
    open_websocket,
    over_websocket,
    post_events,
    post_json,
    post_npy,
)
from benchmarks.serving.server import Server, processor_seconds, serve
from scanline.model import zoo
from scanline.model.bench.machine import print_json
from scanline.model.config import ModelConfig
from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer

REQUEST_SIZES = (1, 64)  # images
IN_FLIGHT = 64  # images
BARE = ModelConfig(28, 28, 1, layers=1, heads=1, key_width=4, value_width=4, feed_forward=4, components=1)


def forms(server: Server, client: httpx.AsyncClient) -> dict[str, Callable[[dict[str, Any]], Awaitable[Answer]]]:
    async def over_own_websocket(fields: dict[str, Any]) -> Answer:
        async with open_websocket(server.url) as socket:
            return await over_websocket(socket, fields)

    return {
        "JSON": partial(post_json, client, GENERATIONS),
        "npy": partial(post_npy, client, GENERATIONS),
        "events, no partial images": partial(post_events, client, GENERATIONS, partial_images=0),
        "events, 2 partial images": partial(post_events, client, GENERATIONS, partial_images=2),
        "websocket": over_own_websocket,
    }


async def measure(server: Server, images: int) -> dict[str, dict[str, float]]:
    """Bytes, messages and microseconds of the API process for an image, by form and size of request."""
    found = {}
    async with http_client(server.url) as client:
        for n in REQUEST_SIZES:
            expected = await post_npy(client, GENERATIONS, {"n": n, "seed": 0})
            for name, request in forms(server, client).items():
                found[f"{name}, n = {n}"] = await measure_form(server, request, expected, n, images)
    return found


async def measure_form(
    server: Server, request: Callable[[dict[str, Any]], Awaitable[Answer]], expected: Answer, n: int, images: int
) -> dict[str, float]:
    room = asyncio.Semaphore(IN_FLIGHT // n)

    async def answer(seed: int) -> Answer:
        async with room:
            return await request({"n": n, "seed": seed})

    assert server.pid is not None
    before = processor_seconds(server.pid)
    answers = await asyncio.gather(*(answer(seed) for seed in range(max(1, images // n))))
    seconds = processor_seconds(server.pid) - before
    assert np.array_equal(answers[0].images, expected.images), "pixels differ between forms"
    received = n * len(answers)
    return {
        "bytes": sum(answer.bytes for answer in answers) / received,
        "messages": sum(answer.messages for answer in answers) / received,
        "microseconds": 1e6 * seconds / received,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--images", type=int, default=512, help="for each form and size of request")
    parser.add_argument("--bare", action="store_true", help="serve a model that costs next to nothing instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.bare:
            torch.manual_seed(0)
            save_model(Transformer(BARE), Path(folder) / "bare")
            options.model = str(Path(folder) / "bare")
        with serve(options.model, "--slots", str(IN_FLIGHT)) as server:
            found = asyncio.run(measure(server, options.images))
    table = Table("form", "bytes", "messages", "microseconds", title=f"an image of {Path(options.model).name}")
    for name, row in found.items():
        table.add_row(name, f"{row['bytes']:,.0f}", f"{row['messages']:.2f}", f"{row['microseconds']:,.0f}")
    Console(width=100).print(table)
    print_json("wire", vars(options), forms=found)


if __name__ == "__main__":
    main()
