"""How long one message, upload or answer holds the event loop at most, and what memory it takes.

    python -m benchmarks.serving.loop_hold [--megabytes 16] [--repeats 3]

A server in this process is sent each payload by a client in another process; a timer of two milliseconds on the event
loop measures how late it fires. Printed is the smallest of the repeats' longest lags: what the payload causes each
time, without what another process on a busy machine causes once. Memory is the rise of the peak of resident bytes, as
a multiple of the payload's own. Large answers are made without painting, from images of noise.
"""

import argparse
import asyncio
import base64
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import httpx
import numpy as np
import uvicorn
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from scanline.model.config import ModelConfig
from scanline.model.pictures import encode_image
from scanline.model.sampling.messages import Scored, ScoreRequest
from scanline.server.api.payload.answers import NPY, painted_chunks, scored_chunks
from scanline.server.api.payload.schemas import ImagesAnswer, LikelihoodsAnswer, Usage
from scanline.server.api.payload.uploads import max_message_bytes
from scanline.server.api.transport.uvicorn_options import uvicorn_options
from scanline.server.engine.job import Job
from scanline.server.process.app import build
from scanline.server.process.registry import served_models
from scanline.server.settings import Settings

PROBE_SECONDS = 0.002
FORM = "multipart/form-data; boundary=x"
HEAD = b'--x\r\ncontent-disposition: form-data; name="'
PICTURE = encode_image(np.zeros((28, 28), np.uint8), "png")


class Probe:
    """The longest lag of the loop since it was last read."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        while True:
            due = time.perf_counter() + PROBE_SECONDS
            await asyncio.sleep(PROBE_SECONDS)
            self.longest = max(self.longest, time.perf_counter() - due)


def documents(size: int) -> dict[str, Callable[[], bytes]]:
    """JSON of up to `size` bytes, by what is in it."""
    return {
        "one long text": lambda: b'{"image": "' + b"A" * size + b'"}',
        "a long unknown field": lambda: b'{"a": "' + b"A" * size + b'"}',
        "unknown fields": lambda: b"{" + b",".join(b'"f%08d":1' % i for i in range(size // 14)) + b"}",
        "empty lists": lambda: b'{"image": [' + b"[]," * (size // 3) + b"[]]}",
        "deep lists": lambda: b"[" * (size // 2) + b"]" * (size // 2),
        "commas in a text": lambda: b'{"user": "' + b"," * size + b'"}',
        "escapes": lambda: b'{"user": "' + b"\\/" * (size // 2) + b'"}',
        "fewer escapes": lambda: b'{"user": "' + b"\\/AAAAAAA" * (size // 9) + b'"}',
        "letters of two bytes": lambda: b'{"user": "' + "é".encode() * (size // 2) + b'"}',
        "a face in a long text": lambda: b'{"user": "' + "😀".encode() + b"A" * size + b'"}',
        "digits": lambda: b'{"seed": ' + b"9" * size + b"}",
        "a fraction of many digits": lambda: b'{"temperature": 0.' + b"9" * size + b"}",
        "spaces": lambda: b'{"n":' + b" " * size + b"1}",
        "1,024 pictures": lambda: json.dumps(_edit(size)).encode(),
    }


def forms(size: int) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Multipart bodies of up to `size` bytes, by what is in them; each with its media type."""
    file, text, end = HEAD + b'image[]"; filename="a"\r\n\r\n', HEAD + b'user"\r\n\r\n', b"\r\n--x--\r\n"
    pictures = (file + PICTURE + b"\r\n") * 1024
    return {
        "1,024 pictures": (FORM, lambda: pictures + HEAD + b'n"\r\n\r\n1000000000' + end),
        "one long file": (FORM, lambda: file + b"a" * size + end),
        "nearly boundaries": (FORM, lambda: file + b"\r\n--y" * (size // 5) + end),
        "long texts": (FORM, lambda: (text + b"a" * 65_000 + b"\r\n") * (size // 65_100) + end),
        "headers": (FORM, lambda: (HEAD + b'a"' + b"\r\na: b" * 7 + b"\r\n\r\n\r\n") * (size // 100) + end),
        "punycode": (f"{FORM}; charset=punycode", lambda: text + b"a" * 60_000 + end),
    }


def _edit(size: int) -> dict[str, object]:
    """An edit of as many pictures as a request may have, with metadata, that is refused only when all are decoded."""
    metadata = b"\0" * max(0, size * 3 // 4 // 1024 - 200)
    text = base64.b64encode(PICTURE + metadata).decode()
    return {"image": [text] * 1024, "keep_rows": 3, "n": 2**30}


def send(url: str, label: str, size: int) -> tuple[int, str]:
    """Send a payload; return its bytes and how it was answered."""
    kind, _, label = label.partition(": ")
    if kind == "websocket":
        size = min(size, 710_000)  # below what mnist-small's messages may have
        body = documents(size)[label]()
        with connect(f"{url.replace('http', 'ws')}/v1/images/stream", proxy=None, max_size=None) as client:
            try:
                client.send(body.decode())
                return len(body), str(json.loads(client.recv(timeout=600)).get("error", {}).get("code"))
            except ConnectionClosed:
                return len(body), "closed"
    media_type, make = forms(size)[label] if kind == "form" else ("application/json", documents(size)[label])
    body = make()
    response = httpx.post(f"{url}/v1/images/edits", content=body, headers={"content-type": media_type}, timeout=600)
    return len(body), f"{response.status_code} {response.json().get('error', {}).get('code')}"


def answers() -> dict[str, Callable[[], AsyncIterator[bytes]]]:
    """Answers of the largest requests, without their painting."""
    config = ModelConfig(32, 32, 3, 1, 1, 4, 4, 4)
    images = np.random.default_rng(0).integers(0, 256, (1024, *config.image_shape), np.uint8)
    job = Job(ScoreRequest(0, tuple(image.tobytes() for image in images)), config.bytes)
    for index in range(1024):
        job.receive(Scored(0, index, np.random.default_rng(index).random(config.bytes).tobytes()))
    painted = ImagesAnswer(
        created=0, model="m", seed=0, data=[], size="32x32", output_format="png", usage=Usage.of(0, 1)
    )
    scored = LikelihoodsAnswer(created=0, model="m", data=[])
    webp = painted.model_copy(update={"output_format": "webp"})
    bits = [1.0] * 1024
    return {
        "answer: 1,024 PNGs": lambda: painted_chunks(painted, images, bits, "application/json"),
        "answer: 1,024 WebPs": lambda: painted_chunks(webp, images, bits, "application/json"),
        "answer: a sheet of 1,024": lambda: painted_chunks(painted, images, bits, "image/png"),
        "answer: an array": lambda: painted_chunks(painted, images, bits, NPY),
        "answer: 3.1 million likelihoods": lambda: scored_chunks(scored, job, config, per_pixel=True),
    }


def peak(reset: bool = False) -> int:
    """Peak of this process's resident bytes; `reset` makes it the bytes of now."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024


def report(label: str, size: int, lag: float, memory: float, answered: str = "") -> None:
    print(f"{label:40} {size:11,} bytes {lag:7.1f} ms {memory:6.1f} x memory  {answered}", flush=True)


async def measure(server: uvicorn.Server, listener: socket.socket, size: int, repeats: int) -> dict[str, float]:
    serving, probe = asyncio.create_task(server.serve(sockets=[listener])), Probe()
    probing = asyncio.create_task(probe.run())
    url, loop, lags = f"http://127.0.0.1:{listener.getsockname()[1]}", asyncio.get_running_loop(), {}
    with ProcessPoolExecutor(1, get_context("spawn")) as clients:

        async def ready() -> bool:
            return await loop.run_in_executor(clients, _is_ready, url)

        while not await ready():
            await asyncio.sleep(0.2)
        labels = [f"{kind}: {label}" for kind in ("json", "websocket") for label in documents(size)]
        for label in (*labels, *(f"form: {label}" for label in forms(size))):
            longest, before = [], peak(reset=True)
            for _ in range(repeats):
                await asyncio.sleep(0.1)
                probe.longest = 0.0
                sent, answered = await loop.run_in_executor(clients, send, url, label, size)
                longest.append(probe.longest)
            lags[label] = 1000 * min(longest)
            report(label, sent, lags[label], (peak() - before) / sent, answered)
        for label, answer in answers().items():
            longest, before, sent = [], peak(reset=True), 0
            for _ in range(repeats):
                probe.longest, sent = 0.0, 0
                async for piece in answer():
                    sent += len(piece)
                longest.append(probe.longest)
            lags[label] = 1000 * min(longest)
            report(label, sent, lags[label], (peak() - before) / sent)
    probing.cancel()
    server.should_exit = True
    await serving
    return lags


def _is_ready(url: str) -> bool:
    return httpx.get(f"{url}/readyz").status_code == 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=15.9)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    settings = Settings(threads=1)
    models = served_models(settings)
    app = build(settings, models)
    listener = socket.create_server(("127.0.0.1", 0))
    options_of_uvicorn = uvicorn_options(settings, app.state.counters)
    options_of_uvicorn["ws_max_size"] = max_message_bytes(models)
    server = uvicorn.Server(uvicorn.Config(app, **options_of_uvicorn))
    lags = asyncio.run(measure(server, listener, int(options.megabytes * 1e6), options.repeats))
    print(json.dumps({"milliseconds": {label: round(lag, 1) for label, lag in lags.items()}}))


if __name__ == "__main__":
    main()
