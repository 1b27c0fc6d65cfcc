"""The monitor of the event loop's lag, and the metrics that it exports."""

import asyncio
import time

import pytest

from scanline.server.runtime.loop_lag import PERIOD_SECONDS, LoopLag


def measured(*holds: float) -> LoopLag:
    """A monitor of a loop that is held for some times, in seconds, with pauses between."""

    async def act() -> LoopLag:
        lag = LoopLag()
        lag.start()
        for hold in holds:
            await asyncio.sleep(2 * PERIOD_SECONDS)
            time.sleep(hold)
        await asyncio.sleep(2 * PERIOD_SECONDS)
        lag.stop()
        return lag

    return asyncio.run(act())


def test_a_held_loop_is_measured() -> None:
    lag = measured(0.4, 0.1)
    assert lag.recent_max >= 0.4 - PERIOD_SECONDS
    assert lag.seconds.sum >= 0.5 - 2 * PERIOD_SECONDS
    late = sum(lag.seconds.counts[lag.seconds.bounds.index(0.25) + 1 :])
    assert 1 <= late < sum(lag.seconds.counts)


def test_a_minute_later_a_lag_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    lag = measured(0.2)
    assert lag.recent_max >= 0.2 - PERIOD_SECONDS
    later = time.monotonic() + 61
    monkeypatch.setattr("scanline.server.runtime.loop_lag.time.monotonic", lambda: later)
    assert lag.recent_max == 0


def test_long_lags_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    measured(0.7, 0.7)
    warnings = [record.getMessage() for record in caplog.records if record.name == "scanline.server"]
    assert len(warnings) == 1
    assert "the event loop was blocked for 0." in warnings[0]
