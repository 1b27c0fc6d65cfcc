"""Floods of one client, each a process: `python -m
tests.support.server.floods NAME PORT`, until killed.

They come from 127.0.0.66, so that others at 127.0.0.1 are other clients.
"""

import asyncio
import base64
import io
import json
import os
import re
import socket
import struct
import sys
import zlib
from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np
from PIL import Image

from scanline.model.images.pictures import MAX_SCANS
from tests.support.pictures import text
from tests.support.server.hostile_pictures import of_scans

SOURCE = "127.0.0.66"
HOST = b"host: 127.0.0.1\r\n"
KEY = b"authorization: Bearer sk-flood\r\n"
EDITS, GENERATIONS, CLASSIFICATIONS, LIKELIHOODS = (
    f"/v1/images/{name}" for name in ("edits", "generations", "classifications", "likelihoods")
)
LARGE = np.zeros((2048, 2048), np.uint8)
SHEET = {"n": 2, "size": "2048x2048", "size_policy": "resize"}
HANDSHAKE = (
    b"GET /v1/images/stream HTTP/1.1\r\n"
    + HOST
    + KEY
    + b"connection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Flood = Callable[[int], Awaitable[None]]  # one connection's part, again and again


async def connect(port: int) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))


async def open_websocket(port: int) -> Streams:
    reader, writer = await connect(port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def tiny_chunks(port: int) -> None:
    """A chunked body of one byte a chunk, which never ends, without a key."""
    _, writer = await connect(port)
    writer.write(
        b"POST /v1/images/edits HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n"
    )
    writer.write(b"transfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\na\r\n" * 40_000)
        await writer.drain()


async def resets(port: int) -> None:
    """Connections that are reset at once."""
    for number in range(100):
        connection = socket.socket()
        connection.bind((SOURCE, 0))
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        if not number % 10:
            await asyncio.sleep(0)


async def silent(port: int) -> None:
    """A connection that sends nothing, not even a handshake."""
    reader, _ = await connect(port)
    await reader.read()


async def get(path: bytes, headers: bytes, port: int) -> None:
    """The same GET again and again, each when the last one is answered."""
    reader, writer = await connect(port)
    while True:
        writer.write(b"GET %s HTTP/1.1\r\n" % path + HOST + headers + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")


async def send(frames: bytes, port: int) -> None:
    """The same frames on a websocket, until it is closed."""
    reader, writer = await open_websocket(port)
    reading = asyncio.ensure_future(_discard(reader))
    while not reading.done():
        writer.write(frames)
        await writer.drain()


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


def _frame(data: bytes) -> bytes:
    return bytes([0x81, 0x80 | len(data)]) + bytes(4) + data


async def ask(
    path: str,
    fields: Callable[[], dict[str, object]],
    port: int,
    accept: str = "*/*",
    read: bool = True,
) -> None:
    """The same request again and again; without `read`, as many as the server
    takes, whose answers are not read.
    """
    body = json.dumps(fields()).encode()
    head = (
        b"POST %s HTTP/1.1\r\n" % path.encode() + HOST + KEY + b"accept: %s\r\n" % accept.encode()
    )
    head += b"content-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(body) + body
    reader, writer = await connect(port)
    while read:
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        if length := re.search(rb"content-length: (\d+)", answer.lower()):
            await reader.readexactly(int(length[1]))
            continue
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    writer.write(request * 64)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(3600)


def _picture(**options: object) -> str:
    file = io.BytesIO()
    Image.new("L", (28, 28)).save(file, **{"format": "PNG", **options})  # type: ignore[arg-type]
    return base64.b64encode(file.getvalue()).decode()


def _slow() -> dict[str, object]:
    """A picture that takes long to decode: it has as many ancillary chunks as fit into a file."""
    data = base64.b64decode(_picture())
    chunk = struct.pack(">I4sI", 0, b"prVt", zlib.crc32(b"prVt"))
    return _edit(base64.b64encode(data[:33] + chunk * 20_000 + data[33:]).decode())


def _swollen() -> dict[str, object]:
    """A JPEG with as many broken EXIF tags as fit."""
    tags = (
        struct.pack(">2sHIH", b"MM", 42, 8, 5000)
        + struct.pack(">HHII", 0x9999, 77, 9, 1 << 30) * 5000
    )
    return _edit(_picture(format="JPEG", exif=b"Exif\0\0" + tags))


def _edit(picture: str) -> dict[str, object]:
    return {"image": [picture] * 16, "keep_rows": 27}


async def unread_streams(port: int) -> None:
    """Websockets with jobs whose frames are not read, each with states to snapshot."""
    _, writer = await open_websocket(port)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(8):
        writer.write(_frame(b'{"type": "generate", "n": 16, "class": "none", "state": [0, 0]}'))
    await asyncio.sleep(3600)


async def handshakes(port: int) -> None:
    """Websockets that are opened and left."""
    (await open_websocket(port))[1].close()


FEW_FRAGMENTS = b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 1000 + b"\x80\x80\0\0\0\0"  # empty ones
WRONG_KEYS = b"".join(b"authorization: Bearer %d\r\n" % number for number in range(200))
MARKED = 500 * ("a" + 15 * "\u0301" + 15 * "\u0323")
FLOODS: dict[str, tuple[Flood, int]] = {  # with the number of connections
    "tiny_chunks": (tiny_chunks, 32),
    "resets": (resets, 64),
    "silent": (silent, 1000),
    # with as many headers as are accepted
    "probes": (partial(get, b"/healthz", b"a:b\r\n" * 240), 64),
    "metrics": (partial(get, b"/metrics", KEY), 64),
    "pings": (partial(send, b"\x89\x80\0\0\0\0" * 10_000), 16),
    "fragments": (partial(send, FEW_FRAGMENTS), 16),
    "slow_pictures": (partial(ask, EDITS, _slow), 48),
    "wrong_keys": (partial(get, b"/v1/models", b"authorization: Bearer wrong\r\n"), 64),
    "many_keys": (partial(get, b"/v1/models", WRONG_KEYS), 64),
    "swollen_pictures": (partial(ask, EDITS, _swollen), 48),
    "broken_pictures": (partial(ask, EDITS, lambda: _edit(_picture()[:40])), 48),  # each a 400
    "images": (partial(ask, GENERATIONS, dict), 64),
    "batches": (partial(ask, GENERATIONS, lambda: {"n": 64}), 16),
    "sheets": (partial(ask, GENERATIONS, lambda: {"n": 64}, accept="image/png"), 16),
    "particles": (
        partial(ask, EDITS, lambda: {"image": _picture(), "keep_rows": 14, "particles": 64}),
        16,
    ),
    "classifications": (partial(ask, CLASSIFICATIONS, lambda: {"image": [_picture()] * 64}), 16),
    "likelihoods": (
        partial(ask, LIKELIHOODS, lambda: {"image": [_picture()] * 64, "per_pixel": True}),
        16,
    ),
    "prompts": (partial(ask, GENERATIONS, lambda: {"prompt": os.urandom(4).hex() + MARKED}), 6),
    "scans": (
        partial(
            ask, EDITS, lambda: _edit(text(of_scans(MAX_SCANS, LARGE))) | {"size_policy": "resize"}
        ),
        6,
    ),
    "webp_sheets": (partial(ask, GENERATIONS, lambda: SHEET, accept="image/webp"), 6),
    "unread_answers": (partial(ask, GENERATIONS, lambda: {"n": 64}, read=False), 24),
    "unread_streams": (unread_streams, 4),
    "handshakes": (handshakes, 64),
    "refused_messages": (partial(send, _frame(b'{"type": "nothing"}') * 1000), 16),
    "unknown_fields": (
        partial(ask, GENERATIONS, lambda: {f"k{number}": 0 for number in range(50_000)}),
        4,
    ),
}


async def main(name: str, port: int) -> None:
    flood, connections = FLOODS[name]

    async def again() -> None:
        while True:
            try:
                await flood(port)
            except (OSError, EOFError):  # refused, or closed
                await asyncio.sleep(0.05)

    print("begins", flush=True)
    await asyncio.gather(*(again() for _ in range(connections)))


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
