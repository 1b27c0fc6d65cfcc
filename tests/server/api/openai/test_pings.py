"""The official OpenAI client ignores the pings that keep an event stream open."""

import os
import signal
import threading

import pytest
from starlette.types import Message, Send

from scanline.server.api.payload.sse import PING, send_with_pings
from scanline.server.api.routes import image_events
from scanline.server.engine.local.engine_client import EngineClient
from tests.support.server.openai_clients import official
from tests.support.waiting import PATIENCE


def test_the_official_client_ignores_pings(
    in_process_server: tuple[str, EngineClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine stands still until a ping has been sent; pings are sent often."""
    url, engine = in_process_server
    pinged = threading.Event()

    def often(send: Send, seconds: float) -> object:
        async def watched(message: Message) -> None:
            await send(message)
            if message is PING:
                pinged.set()

        return send_with_pings(watched, 0.01)

    monkeypatch.setattr(image_events, "send_with_pings", often)
    assert engine.process is not None
    process = engine.process.process.pid
    os.kill(process, signal.SIGSTOP)
    try:
        with official(url) as client:
            stream = client.images.generate(prompt="", stream=True, partial_images=3)
            assert pinged.wait(PATIENCE)
            os.kill(process, signal.SIGCONT)
            assert [event.type.partition(".")[2] for event in stream] == ["partial_image"] * 3 + ["completed"]
    finally:
        os.kill(process, signal.SIGCONT)
