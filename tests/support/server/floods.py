"""Floods of one client, each a process: `python -m tests.support.server.floods NAME PORT`, until killed.

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

from PIL import Image

SOURCE = os.environ.get("FLOOD_SOURCE", "127.0.0.66")  # each of a series is to be a new client, with its burst
HOST, KEY = b"host: 127.0.0.1\r\n", b"authorization: Bearer sk-flood\r\n"
EDITS, GENERATIONS, CLASSIFICATIONS, LIKELIHOODS = (
    f"/v1/images/{name}" for name in ("edits", "generations", "classifications", "likelihoods")
)
HANDSHAKE = (
    b"GET /v1/images/stream HTTP/1.1\r\n" + HOST + KEY + b"connection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Flood = Callable[[int], Awaitable[None]]  # one connection's part, again and again


async def connect(port: int) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))


async def tiny_chunks(port: int) -> None:
    """A chunked body of one byte a chunk, which never ends, without a key."""
    _, writer = await connect(port)
    writer.write(b"POST /v1/images/edits HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n")
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


async def probes(port: int) -> None:
    """Health probes with as many headers as are accepted."""
    reader, writer = await connect(port)
    while True:
        writer.write(b"GET /healthz HTTP/1.1\r\n" + HOST + b"a:b\r\n" * 240 + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")


async def metrics(port: int) -> None:
    """Requests of /metrics."""
    reader, writer = await connect(port)
    while True:
        writer.write(b"GET /metrics HTTP/1.1\r\n" + HOST + KEY + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")


async def pings(port: int) -> None:
    """A websocket full of pings."""
    reader, writer = await connect(port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    reading = asyncio.ensure_future(reader.read())
    while not reading.done():
        writer.write(b"\x89\x80\0\0\0\0" * 10_000)
        await writer.drain()


async def fragments(port: int) -> None:
    """A websocket whose messages are empty fragments."""
    reader, writer = await connect(port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    reading = asyncio.ensure_future(reader.read())
    while not reading.done():
        writer.write(b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 1000 + b"\x80\x80\0\0\0\0")
        await writer.drain()


async def ask(port: int, path: str, fields: dict[str, object], accept: str = "*/*", read: bool = True) -> None:
    """The same request again and again; without `read`, as many as the server takes, whose answers are not read."""
    body = json.dumps(fields).encode()
    head = b"POST %s HTTP/1.1\r\n" % path.encode() + HOST + KEY + b"accept: %s\r\n" % accept.encode()
    head += b"content-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(body) + body
    reader, writer = await connect(port)
    while read:
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer.lower())
        assert length
        await reader.readexactly(int(length[1]))
    writer.write(request * 64)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(3600)


def _picture(**options: object) -> str:
    file = io.BytesIO()
    Image.new("L", (28, 28)).save(file, **{"format": "PNG", **options})  # type: ignore[arg-type]
    return base64.b64encode(file.getvalue()).decode()


def _slow_png() -> bytes:
    """A valid picture that takes long to decode: it has as many ancillary chunks as fit into a file."""
    file = io.BytesIO()
    Image.new("L", (28, 28)).save(file, "PNG")
    head, rest = file.getvalue()[:33], file.getvalue()[33:]
    chunk = struct.pack(">I4sI", 0, b"prVt", zlib.crc32(b"prVt"))
    return head + chunk * 20_000 + rest


async def slow_pictures(port: int) -> None:
    """Completions of pictures that take long to decode."""
    picture = base64.b64encode(_slow_png()).decode()
    await ask(port, EDITS, {"image": [picture] * 16, "keep_rows": 27})


async def swollen_pictures(port: int) -> None:
    """Completions of a JPEG with as many broken EXIF tags as fit."""
    tags = struct.pack(">2sHIH", b"MM", 42, 8, 5000) + struct.pack(">HHII", 0x9999, 77, 9, 1 << 30) * 5000
    picture = _picture(format="JPEG", exif=b"Exif\0\0" + tags)
    await ask(port, EDITS, {"image": [picture] * 16, "keep_rows": 27})


async def broken_pictures(port: int) -> None:
    """Completions of a picture that ends early: refused, a 400 each."""
    await ask(port, EDITS, {"image": [_picture()[:40]] * 16, "keep_rows": 27})


async def images(port: int) -> None:
    """One image after the other on each connection."""
    await ask(port, GENERATIONS, {})


async def batches(port: int) -> None:
    """Requests of 64 images."""
    await ask(port, GENERATIONS, {"n": 64})


async def sheets(port: int) -> None:
    """Requests of 64 images as one picture."""
    await ask(port, GENERATIONS, {"n": 64}, accept="image/png")


async def particles(port: int) -> None:
    """Completions of many particles."""
    await ask(port, EDITS, {"image": _picture(), "keep_rows": 14, "particles": 64})


async def classifications(port: int) -> None:
    """Classifications of 64 pictures a request."""
    await ask(port, CLASSIFICATIONS, {"image": [_picture()] * 64})


async def likelihoods(port: int) -> None:
    """Likelihoods of 64 pictures a request, with the bits of each byte."""
    await ask(port, LIKELIHOODS, {"image": [_picture()] * 64, "per_pixel": True})


async def unread_answers(port: int) -> None:
    """Large answers that are not read."""
    await ask(port, GENERATIONS, {"n": 64}, read=False)


async def unread_streams(port: int) -> None:
    """Websockets with jobs whose frames are not read, each with states to snapshot."""
    reader, writer = await connect(port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(8):
        writer.write(_frame(b'{"type": "generate", "n": 16, "class": "none", "state": [0, 0]}'))
    await asyncio.sleep(3600)


async def handshakes(port: int) -> None:
    """Websockets that are opened and left."""
    reader, writer = await connect(port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def refused_messages(port: int) -> None:
    """A websocket full of messages that are refused."""
    reader, writer = await connect(port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    reading = asyncio.ensure_future(_discard(reader))
    while not reading.done():
        writer.write(_frame(b'{"type": "nothing"}') * 1000)
        await writer.drain()


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


def _frame(data: bytes) -> bytes:
    return bytes([0x81, 0x80 | len(data)]) + bytes(4) + data


async def unknown_fields(port: int) -> None:
    """JSON of as many unknown fields as fit."""
    await ask(port, GENERATIONS, {f"k{number}": 0 for number in range(50_000)})


async def many_keys(port: int) -> None:
    """Requests with 200 keys each, none of which is one."""
    reader, writer = await connect(port)
    while True:
        wrong = b"".join(b"authorization: Bearer %d\r\n" % number for number in range(200))
        writer.write(b"GET /v1/models HTTP/1.1\r\n" + HOST + wrong + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")


async def wrong_keys(port: int) -> None:
    """Requests with a key that is none."""
    reader, writer = await connect(port)
    while True:
        writer.write(b"GET /v1/models HTTP/1.1\r\n" + HOST + b"authorization: Bearer wrong\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")


FLOODS: dict[str, tuple[Flood, int]] = {  # with the number of connections
    "tiny_chunks": (tiny_chunks, 32),
    "resets": (resets, 64),
    "silent": (silent, 1000),
    "probes": (probes, 64),
    "metrics": (metrics, 64),
    "pings": (pings, 16),
    "fragments": (fragments, 16),
    "slow_pictures": (slow_pictures, 48),
    "wrong_keys": (wrong_keys, 64),
    "many_keys": (many_keys, 64),
    "swollen_pictures": (swollen_pictures, 48),
    "broken_pictures": (broken_pictures, 48),
    "images": (images, 64),
    "batches": (batches, 16),
    "sheets": (sheets, 16),
    "particles": (particles, 16),
    "classifications": (classifications, 16),
    "likelihoods": (likelihoods, 16),
    "unread_answers": (unread_answers, 24),
    "unread_streams": (unread_streams, 4),
    "handshakes": (handshakes, 64),
    "refused_messages": (refused_messages, 16),
    "unknown_fields": (unknown_fields, 4),
}


async def main(name: str, port: int) -> None:
    """Flood without end."""
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
