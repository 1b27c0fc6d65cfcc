"""At most so many frames a second over all websockets, where a setting says so."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from scanline.server.api import rate_limit
from scanline.server.api.rate_limit import FrameThrottle
from scanline.server.engine.local.engine_client import EngineClient
from tests.support.server.websocket_client import connected

IMAGES, SLOTS = 200, 64


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses in seconds, which are recorded instead of slept; the clock stands still."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(monotonic=lambda: 7.0))
    monkeypatch.setattr(rate_limit, "asyncio", SimpleNamespace(sleep=sleep))
    return pauses


def send(throttle: FrameThrottle, *frames: int) -> None:
    """Several websockets send so many frames each, at the same moment."""

    async def send_all() -> None:
        for count in frames:
            await throttle.pause(count)

    asyncio.run(send_all())


@pytest.mark.parametrize(
    ("rate", "frames", "expected"),
    [(1000, [200], [0.2]), (1000, [100, 100, 100], [0.1, 0.2, 0.3]), (None, [10**9], [])],
)
def test_frames_of_all_websockets_are_followed_by_a_pause(
    pauses: list[float], rate: int | None, frames: list[int], expected: list[float]
) -> None:
    send(FrameThrottle(rate), *frames)
    assert pauses == pytest.approx(expected)


def test_what_is_painted_during_a_pause_is_merged(
    in_process_server: tuple[str, EngineClient], grey: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pause lasts until everything is painted: only images of the first frames have a second one.

    A tick paints at most 32 of 35 bytes, so that without merging every image has two frames or more.
    """
    url, engine = in_process_server

    async def pause_until_all_is_painted(throttle: FrameThrottle, frames: int) -> None:
        while any(job.images_left for job in engine.jobs.values()):
            await asyncio.sleep(0.01)

    monkeypatch.setattr(FrameThrottle, "pause", pause_until_all_is_painted)
    with connected(url) as websocket:
        job = websocket.paint(type="generate", n=IMAGES, seed=7)
    assert IMAGES <= len(job.frames) <= IMAGES + SLOTS
    np.testing.assert_array_equal(job.images(), paint(grey, IMAGES, seed=7).images)
