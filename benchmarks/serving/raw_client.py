"""An HTTP client that costs little: whole requests are written and whole answers read, over one connection each.

httpx takes several times as long for a request as the server does.
"""

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

from benchmarks.serving.client import GENERATIONS


async def generate_in_turn(url: str, seeds: Iterator[int], images: int, accept: str) -> None:
    """Ask for so many images of each seed, one request after the other; RuntimeError for an answer that is not 200."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    for seed in seeds:
        body = json.dumps({"n": images, "seed": seed}).encode()
        head = (
            f"POST {GENERATIONS} HTTP/1.1\r\nhost: {place.netloc}\r\naccept: {accept}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await _read_answer(reader)
    writer.close()
    await writer.wait_closed()


async def _read_answer(reader: asyncio.StreamReader) -> None:
    """Read an answer to its end."""
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    if " 200 " not in status:
        raise RuntimeError(status)
    headers = dict(line.lower().split(": ", 1) for line in lines if line)
    if "content-length" in headers:
        await reader.readexactly(int(headers["content-length"]))
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)  # and the end of the line
    await reader.readline()
