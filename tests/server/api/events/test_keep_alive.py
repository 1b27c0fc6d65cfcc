"""Pings in event streams: where nothing is told, and nowhere else."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import openai
import pytest
from starlette.types import Message, Send

from scanline.server.api.routes import image_events
from scanline.server.api.sse import PING, send_with_pings
from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.in_process_server import inside
from tests.support.running_server import PATIENCE

NEVER = 1e6
OFTEN = 0.01
TOLD: Message = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}
Served = tuple[str, EngineClient]


class Connection:
    """What was sent, each message once `open` lets it go."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.more = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, message: Message) -> None:
        await self.open.wait()
        self.sent.append(message)
        self.more.set()

    async def has(self, count: int) -> None:
        while len(self.sent) < count:
            self.more.clear()
            await self.more.wait()


def test_a_stream_that_tells_nothing_is_pinged_again_and_again() -> None:
    async def sent() -> list[Message]:
        connection = Connection()
        async with send_with_pings(connection.send, OFTEN):
            await connection.has(3)
        return connection.sent

    assert asyncio.run(sent())[:3] == [PING] * 3


def test_what_is_told_puts_the_ping_off() -> None:
    async def sent() -> list[Message]:
        connection = Connection()
        async with send_with_pings(connection.send, NEVER) as tell:
            await tell(TOLD)
        return connection.sent

    assert asyncio.run(sent()) == [TOLD]


def test_a_reader_who_is_behind_is_not_pinged() -> None:
    """A message waits for him far longer than a ping does; no ping queues up behind it."""

    async def sent() -> list[Message]:
        connection = Connection()
        async with send_with_pings(connection.send, 50 * OFTEN) as tell:
            connection.open.clear()
            telling = asyncio.create_task(tell(TOLD))
            await asyncio.sleep(80 * OFTEN)
            connection.open.set()
            await telling
            return connection.sent.copy()

    assert asyncio.run(sent()) == [TOLD]


def test_nothing_is_pinged_after_the_end() -> None:
    async def tasks() -> int:
        connection = Connection()
        async with send_with_pings(connection.send, OFTEN):
            await connection.has(1)
        return len(asyncio.all_tasks())

    assert asyncio.run(tasks()) == 1


@pytest.fixture(scope="module")
def served(grey_directory: Path) -> Iterator[Served]:
    with inside(Settings(models=(str(grey_directory),), slots=4, threads=1)) as served:
        yield served


@pytest.fixture
def pinged(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Pings come often; it is set when one has gone out."""
    pinged = threading.Event()

    @asynccontextmanager
    async def watched(send: Send, seconds: float) -> AsyncIterator[Send]:
        async def watching(message: Message) -> None:
            await send(message)
            if message is PING:
                pinged.set()

        async with send_with_pings(watching, OFTEN) as tell:
            yield tell

    monkeypatch.setattr(image_events, "send_with_pings", watched)
    return pinged


@contextmanager
def silent(engine: EngineClient) -> Iterator[Callable[[], None]]:
    """The engine does nothing until it is called upon."""

    assert engine.process is not None
    process = engine.process.process.pid

    def go_on() -> None:
        os.kill(process, signal.SIGCONT)

    os.kill(process, signal.SIGSTOP)
    try:
        yield go_on
    finally:
        go_on()


def test_pings_come_while_the_engine_is_silent(served: Served, pinged: threading.Event) -> None:
    url, engine = served
    request = {"json": {"stream": True}, "timeout": PATIENCE}
    with silent(engine) as go_on, httpx.stream("POST", f"{url}/v1/images/generations", **request) as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(4)] == [": ping", ""] * 2
        go_on()
        assert "event: image_generation.completed" in list(lines)


def test_the_official_client_hears_no_ping(served: Served, pinged: threading.Event) -> None:
    url, engine = served
    with silent(engine) as go_on, openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as official:
        stream = official.images.generate(prompt="", stream=True, partial_images=3)
        assert pinged.wait(PATIENCE)
        go_on()
        assert [event.type.partition(".")[2] for event in stream] == ["partial_image"] * 3 + ["completed"]
