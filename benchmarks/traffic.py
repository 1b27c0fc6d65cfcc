"""Clients of every kind: each asks for images of a seed and returns their bytes [n, N], with when the first came."""

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

FRAME = struct.Struct("<III")  # job, image index, first byte position
PATIENCE = 900.0  # seconds for one answer; whoever waits longer counts it as lost


@dataclass(frozen=True)
class Answer:
    """What one request was given."""

    images: np.ndarray  # [n, N] uint8
    first: float | None = None  # when its first bytes came, by time.monotonic; None where they all come at once


class RefusedError(Exception):
    """The server said no: the status of its answer and the code of its error."""

    def __init__(self, status: int, code: str | None) -> None:
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


def client(url: str) -> httpx.AsyncClient:
    """Of which any number of requests may run at once."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits, trust_env=False)


async def post_npy(client: httpx.AsyncClient, path: str, fields: dict[str, Any]) -> Answer:
    answer = await client.post(path, json=fields, headers={"accept": "application/x-npy"})
    _check(answer)
    array = np.load(io.BytesIO(answer.content))
    return Answer(array.reshape(len(array), -1))


async def post_json(client: httpx.AsyncClient, path: str, fields: dict[str, Any]) -> Answer:
    answer = await client.post(path, json=fields)
    _check(answer)
    return Answer(np.stack([pixels(image["b64_json"]) for image in answer.json()["data"]]))


async def events(client: httpx.AsyncClient, path: str, fields: dict[str, Any], n: int) -> Answer:
    """By server-sent events, partial images on the way."""
    images: dict[int, np.ndarray] = {}
    first = None
    async with client.stream("POST", path, json={**fields, "stream": True, "partial_images": 2}) as answer:
        if answer.status_code != 200:
            await answer.aread()
            _check(answer)
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if error := event.get("error"):
                raise RefusedError(0, error["code"])
            first = first or time.monotonic()
            if event["type"].endswith(".completed"):
                images[event["index"]] = pixels(event["b64_json"])
    return Answer(np.stack([images[index] for index in range(n)]), first)


def connect_to(url: str, **options: Any) -> connect:
    """A websocket: awaited, or for as long as a context lasts."""
    quiet = {"compression": None, "ping_interval": None, "open_timeout": PATIENCE, "close_timeout": 10, "proxy": None}
    return connect(f"{url.replace('http', 'ws')}/v1/images/stream", **{**quiet, **options})


async def over_websocket(socket: ClientConnection, fields: dict[str, Any], sleep: float = 0.0) -> Answer:
    """One job on a connection that has no other; a slow reader sleeps so long, having heard that it has begun."""
    await socket.send(json.dumps({"type": "complete" if "image" in fields else "generate", **fields}))
    images: dict[int, bytearray] = {}
    first, bits = None, 0
    while True:
        async with asyncio.timeout(PATIENCE):
            message = await socket.recv()
        if isinstance(message, bytes):
            first = first or time.monotonic()
            _, index, start = FRAME.unpack_from(message)
            image = images.setdefault(index, bytearray())
            if start != len(image):
                raise ValueError(f"a frame of image {index} starts at byte {start}, after {len(image)}")
            image += message[FRAME.size :]
            continue
        told = json.loads(message)
        match told["type"]:
            case "started":
                await asyncio.sleep(sleep)
            case "image":
                bits += 1
            case "error":
                raise RefusedError(0, told["error"]["code"])
            case "done":
                if bits != len(images):
                    raise ValueError(f"{bits} images have ended, {len(images)} were painted")
                return Answer(np.stack([np.frombuffer(images[index], np.uint8) for index in range(bits)]), first)


def pixels(b64_json: str) -> np.ndarray:
    """Bytes [N] uint8 of a picture."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(b64_json)))).reshape(-1)


def png(image: np.ndarray) -> str:
    """base64 of a picture [H, W] or [H, W, 3]."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def _check(answer: httpx.Response) -> None:
    if answer.status_code != 200:
        raise RefusedError(answer.status_code, answer.json()["error"]["code"])
