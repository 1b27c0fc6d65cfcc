"""Floods of one client, each a process: `python -m
tests.support.server.floods NAME PORT`, until killed.

They come from 127.0.0.66, so that others at 127.0.0.1 are other clients.
"""

import asyncio
import os
import re
import socket
import sys

import numpy as np
from websockets.frames import Opcode

from scanline.model.images.picture_files import MAX_SCANS
from tests.support.pictures import encode, text
from tests.support.server.frames import WEBSOCKET_HEAD, frame
from tests.support.server.hostile_pictures import SIGNATURE, chunk, of_scans
from tests.support.server.routes import CLASSIFICATIONS, EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.sockets import post_request, reset

SOURCE = "127.0.0.66"
HOST = b"host: 127.0.0.1\r\n"
KEY = b"authorization: Bearer sk-flood\r\n"
BLACK = np.zeros((28, 28), np.uint8)
PICTURE = text(encode(BLACK))
LARGE = np.zeros((2048, 2048), np.uint8)
MARKED = 500 * ("a" + 15 * "\u0301" + 15 * "\u0323")
PING = b"\x89\x80\0\0\0\0"
# empty fragments of one message
FRAGMENTS = b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 1000 + b"\x80\x80\0\0\0\0"
JOB = frame(Opcode.TEXT, b'{"type": "generate", "n": 16, "class": "none", "state": [0, 0]}')
UNKNOWN = frame(Opcode.TEXT, b'{"type": "nothing"}')
WRONG_KEYS = b"".join(b"authorization: Bearer %d\r\n" % number for number in range(200))


async def connect(port, opening=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))
    writer.write(opening)
    return reader, writer


async def open_websocket(port):
    reader, writer = await connect(port, WEBSOCKET_HEAD + KEY + b"\r\n")
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


# Each is one connection's part, again and again.


async def repeat(port, request):
    """The same request again and again, each when the last one is answered."""
    reader, writer = await connect(port)
    while True:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if length := re.search(rb"content-length: (\d+)", head.lower()):
            await reader.readexactly(int(length[1]))
            continue
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()


async def leave_unread(port, request):
    """As many requests as the server takes, whose answers are not read."""
    _, writer = await connect(port, request * 64)
    writer.transport.pause_reading()
    await asyncio.sleep(3600)


async def send_chunks(port, chunks):
    """A chunked body that never ends, without a key."""
    head = b"POST /v1/images/edits HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n"
    _, writer = await connect(port, head + b"transfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(chunks)
        await writer.drain()


async def send_frames(port, frames):
    """The same frames on a websocket, until it is closed."""
    reader, writer = await open_websocket(port)
    reading = asyncio.ensure_future(discard(reader))
    while not reading.done():
        writer.write(frames)
        await writer.drain()


async def discard(reader):
    while await reader.read(65536):
        pass


async def leave_frames_unread(port, frames):
    """A websocket with jobs whose frames are not read."""
    _, writer = await open_websocket(port)
    writer.transport.pause_reading()
    writer.write(frames)
    await asyncio.sleep(3600)


async def leave_websocket(port, _):
    """A websocket that is opened and left."""
    _, writer = await open_websocket(port)
    writer.close()


async def stay_silent(port, _):
    """A connection that sends nothing, not even a handshake."""
    reader, _writer = await connect(port)
    await reader.read()


async def reset_connections(port, _):
    """Connections that are reset at once."""
    for _number in range(10):
        connection = socket.socket()
        connection.bind((SOURCE, 0))
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        reset(connection)


def get(path, headers=KEY):
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + headers + b"\r\n"


def post(url, accept="*/*", **fields):
    return post_request(url, fields, accept=accept, authorization="Bearer sk-flood")


def edit(picture, **fields):
    return post(EDITS, image=[text(picture)] * 16, keep_rows=27, **fields)


def slow_picture():
    """A picture that takes long to decode: it has as many ancillary chunks as fit into a file."""
    picture = encode(BLACK)
    head = len(SIGNATURE) + 25
    return picture[:head] + chunk(b"prVt", b"") * 20_000 + picture[head:]


def swollen_picture():
    """A JPEG with as many broken EXIF tags as fit."""
    tag = bytes.fromhex("9999 004d 00000009 40000000")
    tags = bytes.fromhex("4d4d 002a 00000008 1388") + tag * 5000
    return encode(BLACK, "JPEG", exif=b"Exif\0\0" + tags)


def unknown_fields():
    return post(GENERATIONS, **{f"k{number}": 0 for number in range(50_000)})


def sheets():
    return post(GENERATIONS, "image/webp", n=2, size="2048x2048", size_policy="resize")


# connections, what each of them does, and with which bytes
FLOODS = {
    "tiny_chunks": (32, send_chunks, lambda: b"1\r\na\r\n" * 40_000),
    "resets": (64, reset_connections, bytes),
    "silent": (1000, stay_silent, bytes),
    # with as many headers as are accepted
    "probes": (64, repeat, lambda: get(b"/healthz", b"a:b\r\n" * 240)),
    "metrics": (64, repeat, lambda: get(b"/metrics")),
    "pings": (16, send_frames, lambda: PING * 10_000),
    "fragments": (16, send_frames, lambda: FRAGMENTS),
    "slow_pictures": (48, repeat, lambda: edit(slow_picture())),
    "wrong_keys": (64, repeat, lambda: get(b"/v1/models", b"authorization: Bearer wrong\r\n")),
    "many_keys": (64, repeat, lambda: get(b"/v1/models", WRONG_KEYS)),
    "swollen_pictures": (48, repeat, lambda: edit(swollen_picture())),
    "broken_pictures": (48, repeat, lambda: edit(encode(BLACK)[:30])),  # each a 400
    "images": (64, repeat, lambda: post(GENERATIONS)),
    "batches": (16, repeat, lambda: post(GENERATIONS, n=64)),
    "sheets": (16, repeat, lambda: post(GENERATIONS, "image/png", n=64)),
    "particles": (16, repeat, lambda: post(EDITS, image=PICTURE, keep_rows=14, particles=64)),
    "classifications": (16, repeat, lambda: post(CLASSIFICATIONS, image=[PICTURE] * 64)),
    "likelihoods": (16, repeat, lambda: post(LIKELIHOODS, image=[PICTURE] * 64, per_pixel=True)),
    "prompts": (6, repeat, lambda: post(GENERATIONS, prompt=os.urandom(4).hex() + MARKED)),
    "scans": (6, repeat, lambda: edit(of_scans(MAX_SCANS, LARGE), size_policy="resize")),
    "webp_sheets": (6, repeat, sheets),
    "unread_answers": (24, leave_unread, lambda: post(GENERATIONS, n=64)),
    "unread_streams": (4, leave_frames_unread, lambda: JOB * 8),
    "handshakes": (64, leave_websocket, bytes),
    "refused_messages": (16, send_frames, lambda: UNKNOWN * 1000),
    "unknown_fields": (4, repeat, unknown_fields),
}


async def main(name, port):
    connections, flood, data = FLOODS[name]

    async def again():
        while True:
            try:
                await flood(port, data())
            except (OSError, EOFError):  # refused, or closed
                await asyncio.sleep(0.05)

    print("begins", flush=True)
    await asyncio.gather(*(again() for _ in range(connections)))


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
