"""Requests over HTTP and websockets, and the images that they must return."""

import asyncio
import base64
import io
import json
import re
import struct
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from PIL import Image
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from scanline.model import zoo
from scanline.model.base.precision import DEFAULT
from scanline.model.formats.checkpoint import load_model
from scanline.model.tasks.offline import paint

GENERATIONS = "/v1/images/generations"
JSON = "application/json"
NPY = "application/x-npy"
FRAME = struct.Struct("<III")  # job, image index, first byte position
TIMEOUT = 900.0  # seconds for one answer; a request that takes longer counts as lost


class Expected:
    """Images that a server must return, painted offline from the same model and seeds: byte for
    byte, at any load.

    `most` images of each of the seeds 0 .. seeds-1.
    """

    def __init__(self, model: str, seeds: int, most: int, precision: str = DEFAULT) -> None:
        self.model = load_model(zoo.find(model))
        self.precision = precision
        self.images = {
            seed: paint(self.model, most, seed=seed, options={"precision": precision}).images
            for seed in range(seeds)
        }


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    images: np.ndarray  # [n, N] uint8
    first: float | None = None  # time.monotonic() of the first pixels; None if all come at once


class RefusedError(Exception):
    """The server returned an error: its status (0 inside a stream) and its code."""

    def __init__(self, status: int, code: str | None) -> None:
        super().__init__(f"{status} {code}")


# no right answer
LOST = (RefusedError, ValueError, KeyError, OSError, EOFError, ConnectionClosed, InvalidHandshake)


class HttpClient:
    """Kept connections to one server, as many as there are requests at a time.

    Requests are written whole and nothing is parsed that is not needed: httpx takes several times
    as long for a request as the server does.
    """

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.host = place.hostname
        self.port = place.port
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, path: str, fields: dict[str, Any], accept: str = JSON) -> bytes:
        """Return the body of a right answer; RefusedError for any other status."""
        body = json.dumps(fields).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\naccept: {accept}\r\n"
            f"content-type: {JSON}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        reader, writer = await self._connection()
        try:
            async with asyncio.timeout(TIMEOUT):
                writer.write(head.encode() + body)
                received = (await reader.readuntil(b"\r\n\r\n")).lower()
                answer = await _body(reader, received)
        except BaseException:
            writer.transport.abort()  # what is left of the answer would be taken for the next one
            raise
        if b"connection: close" in received:
            writer.close()
        else:
            self.idle.append((reader, writer))
        status = int(received.split(b" ", 2)[1])
        if status != 200:
            raise RefusedError(status, json.loads(answer)["error"]["code"])
        return answer

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
        return await asyncio.open_connection(self.host, self.port)


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Read a body to its end: of the length in its head, or in chunks."""
    length = re.search(rb"content-length: (\d+)", head)
    if length:
        return await reader.readexactly(int(length[1]))
    body = bytearray()
    while True:
        size = int(await reader.readline(), 16)
        chunk = await reader.readexactly(size + 2)
        body += chunk[:-2]  # without the end of the line
        if not size:
            return bytes(body)


async def post_npy(client: HttpClient, path: str, fields: dict[str, Any]) -> Answer:
    images = np.load(io.BytesIO(await client.ask(path, fields, NPY)))
    return Answer(images.reshape(len(images), -1))


async def post_json(client: HttpClient, path: str, fields: dict[str, Any]) -> Answer:
    data = json.loads(await client.ask(path, fields))["data"]
    pictures = (Image.open(io.BytesIO(base64.b64decode(image["b64_json"]))) for image in data)
    return Answer(np.stack([np.asarray(picture).reshape(-1) for picture in pictures]))


def open_websocket(url: str) -> connect:
    """Return a websocket connection, to be awaited or used as a context manager."""
    quiet = {
        "compression": None,
        "ping_interval": None,
        "open_timeout": TIMEOUT,
        "close_timeout": 10,
        "proxy": None,
    }
    return connect(f"{url.replace('http', 'ws')}/v1/images/stream", **quiet)


async def over_websocket(socket: ClientConnection, fields: dict[str, Any]) -> Answer:
    """Run a job on a connection that has no other job."""
    await socket.send(json.dumps({"type": "generate", **fields}))
    images = [bytearray() for _ in range(fields["n"])]
    first = None
    while True:
        async with asyncio.timeout(TIMEOUT):
            message = await socket.recv()
        if isinstance(message, bytes):
            first = first or time.monotonic()
            _, index, start = FRAME.unpack_from(message)
            expected = len(images[index])
            if start != expected:
                raise ValueError(
                    f"a frame of image {index} starts at byte {start}, expected {expected}"
                )
            images[index] += message[FRAME.size :]
            continue
        event = json.loads(message)
        if event["type"] == "error":
            raise RefusedError(0, event["error"]["code"])
        if event["type"] == "done":
            return Answer(np.stack([np.frombuffer(image, np.uint8) for image in images]), first)
