"""Keeps an event stream's connection open while there is nothing to tell: proxies cut those on which nothing moves.

A comment line is no event: whoever reads server-sent events by their rules passes over it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from starlette.types import Message, Send

PING = {"type": "http.response.body", "body": b": ping\n\n", "more_body": True}


@asynccontextmanager
async def kept_alive(send: Send, seconds: float) -> AsyncIterator[Send]:
    """`send` for as long as the context lasts; a ping goes out whenever nothing else has for so many seconds."""
    sending, last = asyncio.Lock(), monotonic()

    async def told(message: Message) -> None:
        nonlocal last
        async with sending:
            await send(message)
            last = monotonic()

    async def ping() -> None:
        nonlocal last
        while True:
            await asyncio.sleep(last + seconds - monotonic())
            async with sending:  # a reader who is behind has enough to read
                if monotonic() - last >= seconds:
                    await send(PING)
                    last = monotonic()

    pinging = asyncio.create_task(ping())
    try:
        yield told
    finally:
        pinging.cancel()
        await asyncio.gather(pinging, return_exceptions=True)
