"""Requests in every form of the API. Each returns the images' bytes [n, N] and what they took on the wire."""

import asyncio
import base64
import io
import json
import struct
import time
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from PIL import Image
from websockets.asyncio.client import ClientConnection, connect

GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
FRAME = struct.Struct("<III")  # job, image index, first byte position
TIMEOUT = 900.0  # seconds for one answer; a request that takes longer counts as lost


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    images: np.ndarray  # [n, N] uint8
    bytes: int  # head and body of the response, or websocket messages and their frame headers; nothing of TCP and IP
    messages: int  # events or websocket messages; 1 if the response comes in one piece
    first: float | None = None  # time.monotonic() of the first pixels; None if all come at once


class RefusedError(Exception):
    """The server returned an error: its status (0 inside a stream) and its code."""

    def __init__(self, status: int, code: str | None) -> None:
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


def http_client(url: str) -> httpx.AsyncClient:
    """A client that may have any number of requests open at once."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=url, timeout=TIMEOUT, limits=limits, trust_env=False)


async def post_npy(client: httpx.AsyncClient, path: str, fields: dict[str, Any]) -> Answer:
    response = await client.post(path, json=fields, headers={"accept": "application/x-npy"})
    raise_for_error(response)
    images = np.load(io.BytesIO(response.content))
    return Answer(images.reshape(len(images), -1), _head_bytes(response) + len(response.content), 1)


async def post_json(client: httpx.AsyncClient, path: str, fields: dict[str, Any]) -> Answer:
    response = await client.post(path, json=fields)
    raise_for_error(response)
    images = np.stack([decode(image["b64_json"]) for image in response.json()["data"]])
    return Answer(images, _head_bytes(response) + len(response.content), 1)


async def post_events(client: httpx.AsyncClient, path: str, fields: dict[str, Any], partial_images: int = 2) -> Answer:
    """As server-sent events."""
    images: dict[int, np.ndarray] = {}
    length = messages = 0
    first = None
    body = {**fields, "stream": True, "partial_images": partial_images}
    async with client.stream("POST", path, json=body) as response:
        if response.status_code != 200:
            await response.aread()
            raise_for_error(response)
        async for line in response.aiter_lines():
            length += len(line) + 1
            if not line.startswith("data: "):
                continue
            messages += 1
            event = json.loads(line.removeprefix("data: "))
            if error := event.get("error"):
                raise RefusedError(0, error["code"])
            first = first or time.monotonic()
            if event["type"].endswith(".completed"):
                images[event["index"]] = decode(event["b64_json"])
    ordered = np.stack([images[index] for index in range(fields["n"])])
    return Answer(ordered, _head_bytes(response) + length, messages, first)


def open_websocket(url: str, **options: Any) -> connect:
    """A websocket connection, to be awaited or used as a context manager."""
    quiet = {"compression": None, "ping_interval": None, "open_timeout": TIMEOUT, "close_timeout": 10, "proxy": None}
    return connect(f"{url.replace('http', 'ws')}/v1/images/stream", **{**quiet, **options})


async def over_websocket(socket: ClientConnection, fields: dict[str, Any], pause: float = 0.0) -> Answer:
    """One job on a connection that has no other job; nothing is read for `pause` seconds after its start."""
    await socket.send(json.dumps({"type": "complete" if "image" in fields else "generate", **fields}))
    images: dict[int, bytearray] = {}
    length = messages = ended = 0
    first = None
    while True:
        async with asyncio.timeout(TIMEOUT):
            message = await socket.recv()
        length += len(message) + (2 if len(message) < 126 else 4)
        messages += 1
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
                return Answer(ordered, length, messages, first)


def decode(b64_json: str) -> np.ndarray:
    """Bytes [N] uint8 of a base64 picture."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(b64_json)))).reshape(-1)


def encode(image: np.ndarray) -> str:
    """A base64 PNG of [H, W] or [H, W, 3] uint8."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def raise_for_error(response: httpx.Response) -> None:
    if response.status_code != 200:
        raise RefusedError(response.status_code, response.json()["error"]["code"])


def _head_bytes(response: httpx.Response) -> int:
    """Bytes of the status line and the headers."""
    return len("HTTP/1.1 200 OK\r\n\r\n") + sum(len(name) + len(value) + 4 for name, value in response.headers.raw)
