"""Server-sent events: their framing, and pings while there is nothing to send.

Proxies close connections on which nothing moves. A ping is a comment line,
which is no event: clients ignore it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from starlette.types import Message, Send

PING = {"type": "http.response.body", "body": b": ping\n\n", "more_body": True}


def sse_event(name: str, data: dict[str, Any]) -> bytes:
    """Return one event as it is sent: its name, and its data as one line of JSON."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


@asynccontextmanager
async def send_with_pings(send: Send, seconds: float) -> AsyncIterator[Send]:
    """Yield a `send` to use while the context lasts; a ping is sent
    whenever nothing was sent for `seconds`.
    """
    lock = asyncio.Lock()
    last = monotonic()

    async def locked_send(message: Message) -> None:
        nonlocal last
        async with lock:
            await send(message)
            last = monotonic()

    async def ping() -> None:
        nonlocal last
        while True:
            await asyncio.sleep(last + seconds - monotonic())
            async with lock:
                # While this waited for the lock an event was sent: a
                # client that is behind needs no ping.
                if monotonic() - last >= seconds:
                    await send(PING)
                    last = monotonic()

    pings = asyncio.create_task(ping())
    try:
        yield locked_send
    finally:
        pings.cancel()
        await asyncio.gather(pings, return_exceptions=True)
