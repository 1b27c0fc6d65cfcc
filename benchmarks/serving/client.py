"""Requests in every form of the API, and the images that they must return."""

import asyncio
import base64
import io
import json
import re
import struct
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from PIL import Image
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import Generator
from scanline.model.tasks.offline import paint

GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
JSON, NPY, PNG = "application/json", "application/x-npy", "image/png"
FRAME = struct.Struct("<III")  # job, image index, first byte position
TIMEOUT = 900.0  # seconds for one answer; a request that takes longer counts as lost
KEPT_ROWS = 14  # of a completion


class Expected:
    """Images that a server must return, painted offline from the same model and seeds: byte for byte, at any load.

    `most` images of each of the seeds 0 .. seeds-1; optionally completions and likelihoods of their first images.
    """

    def __init__(self, model: str, seeds: int, most: int, precision: str = DEFAULT, completions: bool = False) -> None:
        self.model, self.most, self.precision = load_model(zoo.find(model)), most, precision
        self.config = self.model.config
        self.images = {seed: paint(self.model, most, seed=seed, precision=precision).images for seed in range(seeds)}
        self.completed: dict[int, np.ndarray] = {}
        self.bits_per_dim: dict[int, float] = {}
        if not completions:
            return
        mask = np.arange(self.config.bytes) < KEPT_ROWS * self.config.width * self.config.channels
        for seed in range(seeds):
            painted = paint(self.model, most, seed=seed, known=self.known(seed), mask=mask, precision=precision)
            self.completed[seed] = painted.images
        generator = Generator(self.model, 1, precision=precision)
        self.bits_per_dim = {seed: float(generator.score(self.known(seed)[None]).mean()) for seed in range(seeds)}
        generator.close()

    def known(self, seed: int) -> np.ndarray:
        """Return the image [N] uint8 that the completions of a seed start from."""
        image: np.ndarray = self.images[seed][0]
        return image

    def picture(self, seed: int) -> str:
        """Return that image as a base64 PNG."""
        config, out = self.config, io.BytesIO()
        shape = config.image_shape if config.channels > 1 else (config.height, config.width)
        Image.fromarray(self.known(seed).reshape(shape)).save(out, "PNG")
        return base64.b64encode(out.getvalue()).decode()


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    images: np.ndarray  # [n, N] uint8
    first: float | None = None  # time.monotonic() of the first pixels; None if all come at once


class RefusedError(Exception):
    """The server returned an error: its status (0 inside a stream) and its code."""

    def __init__(self, status: int, code: str | None) -> None:
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


LOST = (RefusedError, ValueError, KeyError, OSError, EOFError, ConnectionClosed, InvalidHandshake)  # no right answer


class HttpClient:
    """Kept connections to one server, as many as there are requests at a time.

    Requests are written whole and nothing is parsed that is not needed: httpx takes several times as long for a request
    as the server does.
    """

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.host, self.port = place.hostname, place.port
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(
        self, path: str, body: bytes, accept: str = JSON, receive: Callable[[bytes], object] | None = None
    ) -> tuple[int, bytes]:
        """Return the status and the body; `receive` gets the pieces of a body instead."""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\naccept: {accept}\r\n"
            f"content-type: {JSON}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        reader, writer = await self._connection()
        try:
            async with asyncio.timeout(TIMEOUT):
                writer.write(head.encode() + body)
                received = (await reader.readuntil(b"\r\n\r\n")).lower()
                status, whole = int(received.split(b" ", 2)[1]), bytearray()
                async for piece in _pieces(reader, received):
                    (receive if receive and status == 200 else whole.extend)(piece)
        except BaseException:
            writer.transport.abort()  # what is left of the answer would be taken for the next one
            raise
        if b"connection: close" in received:
            writer.close()
        else:
            self.idle.append((reader, writer))
        return status, bytes(whole)

    async def ask(self, path: str, fields: dict[str, Any], accept: str = JSON, **options: Any) -> bytes:
        """Return the body of a right answer; RefusedError for any other status."""
        status, body = await self.post(path, json.dumps(fields).encode(), accept, **options)
        if status != 200:
            raise RefusedError(status, json.loads(body)["error"]["code"])
        return body

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
        return await asyncio.open_connection(self.host, self.port)

    def close(self) -> None:
        while self.idle:
            self.idle.pop()[1].close()


async def _pieces(reader: asyncio.StreamReader, head: bytes) -> AsyncIterator[bytes]:
    """Read a body to its end: of the length in its head, or in chunks."""
    if length := re.search(rb"content-length: (\d+)", head):
        yield await reader.readexactly(int(length[1]))
        return
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]  # without the end of the line
    await reader.readline()


async def post_npy(client: HttpClient, path: str, fields: dict[str, Any]) -> Answer:
    images = np.load(io.BytesIO(await client.ask(path, fields, NPY)))
    return Answer(images.reshape(len(images), -1))


async def post_json(client: HttpClient, path: str, fields: dict[str, Any]) -> Answer:
    body = await client.ask(path, fields)
    return Answer(np.stack([decode(image["b64_json"]) for image in json.loads(body)["data"]]))


async def post_events(client: HttpClient, path: str, fields: dict[str, Any]) -> Answer:
    """Ask for server-sent events."""
    images: dict[int, np.ndarray] = {}
    first, rest = None, b""

    def receive(piece: bytes) -> None:
        nonlocal first, rest
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                event = json.loads(line.removeprefix(b"data: "))
                if error := event.get("error"):
                    raise RefusedError(0, error["code"])
                first = first or time.monotonic()
                if event["type"].endswith(".completed"):
                    images[event["index"]] = decode(event["b64_json"])

    await client.ask(path, {**fields, "stream": True, "partial_images": 2}, receive=receive)
    return Answer(np.stack([images[index] for index in range(fields["n"])]), first)


def open_websocket(url: str, **options: Any) -> connect:
    """Return a websocket connection, to be awaited or used as a context manager."""
    quiet = {"compression": None, "ping_interval": None, "open_timeout": TIMEOUT, "close_timeout": 10, "proxy": None}
    return connect(f"{url.replace('http', 'ws')}/v1/images/stream", **{**quiet, **options})


async def over_websocket(socket: ClientConnection, fields: dict[str, Any], pause: float = 0.0) -> Answer:
    """Run a job on a connection that has no other job; nothing is read for `pause` seconds after its start."""
    await socket.send(json.dumps({"type": "complete" if "image" in fields else "generate", **fields}))
    images: dict[int, bytearray] = {}
    ended, first = 0, None
    while True:
        async with asyncio.timeout(TIMEOUT):
            message = await socket.recv()
        if isinstance(message, bytes):
            first = first or time.monotonic()
            _, index, start = FRAME.unpack_from(message)
            image = images.setdefault(index, bytearray())
            if start != len(image):
                raise ValueError(f"a frame of image {index} starts at byte {start}, expected {len(image)}")
            image += message[FRAME.size :]
            continue
        event = json.loads(message)
        match event["type"]:
            case "started":
                await asyncio.sleep(pause)
            case "image":
                ended += 1
            case "error":
                raise RefusedError(0, event["error"]["code"])
            case "done":
                if ended != len(images):
                    raise ValueError(f"{ended} images have ended, frames came of {len(images)}")
                ordered = np.stack([np.frombuffer(images[index], np.uint8) for index in range(ended)])
                return Answer(ordered, first)


def decode(b64_json: str) -> np.ndarray:
    """Return the bytes [N] uint8 of a base64 picture."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(b64_json)))).reshape(-1)
