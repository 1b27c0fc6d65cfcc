"""The limit of one client's requests without a model's work: beyond a rate they are delayed, and nothing grows."""

import asyncio
import time

import pytest

from scanline.server.api import rate_limit
from scanline.server.api.rate_limit import BURST_SECONDS, MAX_CLIENTS, MAX_DELAY_SECONDS, OverheadLimit

RATE = 10.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets."""
    now = [1000.0]
    monkeypatch.setattr(rate_limit.time, "monotonic", lambda: now[0])
    return now


def test_a_burst_costs_nothing_and_what_is_beyond_it_waits_until_time_has_paid_for_it(clock: list[float]) -> None:
    limit = OverheadLimit(RATE)
    limit.charge("a", RATE * BURST_SECONDS)
    assert limit.delay("a") == 0
    limit.charge("a", 20)
    assert limit.delay("a") == pytest.approx(2)
    clock[0] += 1.5
    assert limit.delay("a") == pytest.approx(0.5)
    clock[0] += 100
    limit.charge("a", RATE * BURST_SECONDS)
    assert limit.delay("a") == 0, "idle time is no credit, but it pays off all that there was"
    limit.charge("a", 1)
    assert limit.delay("a") == pytest.approx(0.1)


def test_no_client_pays_for_another_and_proxies_for_none(clock: list[float]) -> None:
    limit = OverheadLimit(RATE)
    limit.charge("a", 1e9)
    limit.charge(None, 1e9)
    assert limit.delay("a") == MAX_DELAY_SECONDS
    assert limit.delay("b") == limit.delay(None) == 0


def test_what_waits_already_has_its_turn_first() -> None:
    async def waits() -> list[float]:
        limit, draining = OverheadLimit(RATE), asyncio.Event()
        limit.charge("a", RATE * BURST_SECONDS + 1)
        began, ended = time.monotonic(), []

        async def one() -> None:
            await limit.wait("a", draining)
            ended.append(time.monotonic() - began)

        await asyncio.gather(*(one() for _ in range(5)))
        return ended

    assert all(seconds >= 0.09 * (turn + 1) for turn, seconds in enumerate(asyncio.run(waits())))


def test_nothing_waits_while_the_server_drains_and_a_probe_waits_no_longer_than_it_may() -> None:
    async def seconds(draining: asyncio.Event, most: float) -> float:
        limit = OverheadLimit(RATE)
        limit.charge("a", 1e9)
        began = time.monotonic()
        await limit.wait("a", draining, most)
        return time.monotonic() - began

    drained = asyncio.Event()
    drained.set()
    assert asyncio.run(seconds(drained, 1e9)) < MAX_DELAY_SECONDS / 2
    assert 0.05 < asyncio.run(seconds(asyncio.Event(), 0.06)) < MAX_DELAY_SECONDS / 2


def test_the_clients_that_are_remembered_are_bounded() -> None:
    limit = OverheadLimit(RATE)
    for number in range(2 * MAX_CLIENTS):
        limit.charge(f"client {number}", 1)
    assert len(limit.accounts) == MAX_CLIENTS
