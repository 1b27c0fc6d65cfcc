"""Pings keep an event stream open while there is nothing else to send."""

import asyncio

import pytest
from starlette.types import Message

from scanline.server.api.payload import sse
from scanline.server.api.payload.sse import send_with_pings

MESSAGE: Message = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}


class Connection:
    """Records what was sent; a message is sent once `open` is set."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.open = asyncio.Event()

    async def send(self, message: Message) -> None:
        await self.open.wait()
        self.sent.append(message)


def test_a_slow_reader_is_not_pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ping falls due while a message waits to be read; it is not sent after the message. No time passes here."""
    now, sleep = 0.0, asyncio.sleep

    async def advance_clock(seconds: float) -> None:
        nonlocal now
        now += seconds
        await sleep(0)

    async def sent() -> list[Message]:
        connection = Connection()
        async with send_with_pings(connection.send, 1.0) as send:
            sending = asyncio.create_task(send(MESSAGE))
            while now < 1.0:
                await sleep(0)
            connection.open.set()
            await sending
            found = connection.sent.copy()
        assert len(asyncio.all_tasks()) == 1  # no task is left to ping
        return found

    monkeypatch.setattr(sse, "monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", advance_clock)
    assert asyncio.run(sent()) == [MESSAGE]
