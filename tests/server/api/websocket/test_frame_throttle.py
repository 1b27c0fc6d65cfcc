"""At most so many frames a second over all websockets, where a setting says so."""

import asyncio
from types import SimpleNamespace

import pytest

from scanline.server.api import rate_limit
from scanline.server.api.rate_limit import FrameThrottle
from scanline.server.engine.local.engine_client import EngineClient
from tests.support.server.websocket_client import connected


@pytest.mark.parametrize(
    ("rate", "frames", "expected"),
    [(1000, [200], [0.2]), (1000, [100, 100, 100], [0.1, 0.2, 0.3]), (None, [10**9], [])],
)
def test_frames_of_all_websockets_are_followed_by_a_pause(
    monkeypatch: pytest.MonkeyPatch, rate: int | None, frames: list[int], expected: list[float]
) -> None:
    """The clock stands still, and pauses are recorded instead of slept."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def send() -> None:
        throttle = FrameThrottle(rate)
        for count in frames:
            await throttle.pause(count)

    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(monotonic=lambda: 7.0))
    monkeypatch.setattr(rate_limit, "asyncio", SimpleNamespace(sleep=sleep))
    asyncio.run(send())
    assert pauses == pytest.approx(expected)


def test_each_frame_of_a_websocket_is_counted(
    in_process_server: tuple[str, EngineClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    async def pause(throttle: FrameThrottle, frames: int) -> None:
        counted.append(frames)

    monkeypatch.setattr(FrameThrottle, "pause", pause)
    with connected(in_process_server[0]) as websocket:
        assert len(websocket.paint(type="generate", n=200).frames) == sum(counted)
