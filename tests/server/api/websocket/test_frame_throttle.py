"""So many frames a second over all websockets, where a setting says so."""

import asyncio
import time
from pathlib import Path

import numpy as np

from scanline.server.api.rate_limit import FrameThrottle
from tests.support.running_server import serve
from tests.support.websocket_client import connected


def seconds(pace: FrameThrottle, *frames: int) -> float:
    """That so many websockets take which send these frames at once."""

    async def send() -> None:
        await asyncio.gather(*(pace.pause(count) for count in frames))

    began = time.monotonic()
    asyncio.run(send())
    return time.monotonic() - began


def test_frames_take_their_time() -> None:
    assert seconds(FrameThrottle(1000), 200) >= 0.2


def test_all_websockets_share_it() -> None:
    assert seconds(FrameThrottle(1000), 100, 100, 100) >= 0.3


def test_without_a_rate_nobody_pauses() -> None:
    pace = FrameThrottle(None)
    assert seconds(pace, 10**9) < 5
    assert pace.seconds_per_frame == 0


def test_what_is_painted_meanwhile_is_merged(grey_directory: Path) -> None:
    with (
        serve(grey_directory, "--slots", "64") as free,
        serve(grey_directory, "--slots", "64", "--max-frames-per-second", "100") as slow,
        connected(free.url) as unpaced,
        connected(slow.url) as paced,
    ):
        fast = unpaced.paint(type="generate", n=64, seed=7)
        began = time.monotonic()
        told = paced.paint(type="generate", n=64, seed=7)
        assert time.monotonic() - began >= 0.6
    np.testing.assert_array_equal(told.images(), fast.images())
    assert told.messages[-1]["type"] == "done"
