"""The official OpenAI client ignores the pings that keep an event stream open."""

import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from starlette.types import Message, Send

from scanline.server.api.payload.sse import PING, send_with_pings
from scanline.server.api.routes import image_events
from scanline.server.engine.local.engine_client import EngineClient
from tests.support.server.openai_clients import official
from tests.support.server.running_server import PATIENCE

OFTEN = 0.01
Served = tuple[str, EngineClient]


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
    with stopped(engine) as resume, official(url) as client:
        stream = client.images.generate(prompt="", stream=True, partial_images=3)
        assert pinged.wait(PATIENCE)
        resume()
        assert [event.type.partition(".")[2] for event in stream] == ["partial_image"] * 3 + ["completed"]
