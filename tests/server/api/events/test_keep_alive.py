"""Pings keep an event stream open while there is nothing else to send."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import openai
import pytest
from starlette.types import Message, Send

from scanline.server.api.payload import sse
from scanline.server.api.payload.sse import PING, send_with_pings
from scanline.server.api.routes import image_events
from scanline.server.engine.local.engine_client import EngineClient
from tests.support.server.running_server import PATIENCE

OFTEN = 0.01
MESSAGE: Message = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}
Served = tuple[str, EngineClient]


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


@pytest.fixture
def pinged(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Pings are sent often; the event is set when one has been sent."""
    pinged = threading.Event()

    @asynccontextmanager
    async def watched(send: Send, seconds: float) -> AsyncIterator[Send]:
        async def watching(message: Message) -> None:
            await send(message)
            if message is PING:
                pinged.set()

        async with send_with_pings(watching, OFTEN) as kept_alive_send:
            yield kept_alive_send

    monkeypatch.setattr(image_events, "send_with_pings", watched)
    return pinged


@contextmanager
def stopped(engine: EngineClient) -> Iterator[Callable[[], None]]:
    """The engine process is stopped until `resume` is called."""

    assert engine.process is not None
    process = engine.process.process.pid

    def resume() -> None:
        os.kill(process, signal.SIGCONT)

    os.kill(process, signal.SIGSTOP)
    try:
        yield resume
    finally:
        resume()


def test_the_official_client_ignores_pings(in_process_server: Served, pinged: threading.Event) -> None:
    url, engine = in_process_server
    with stopped(engine) as resume, openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as official:
        stream = official.images.generate(prompt="", stream=True, partial_images=3)
        assert pinged.wait(PATIENCE)
        resume()
        assert [event.type.partition(".")[2] for event in stream] == ["partial_image"] * 3 + ["completed"]
