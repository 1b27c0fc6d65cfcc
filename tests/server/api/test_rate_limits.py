"""Limits of rates: beyond its own, a client's overhead is delayed, wrong keys wait,
frames pause; and nothing grows.
"""

import asyncio
import time
from types import SimpleNamespace

import httpx
import pytest
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from scanline.server.api.base import rate_limit
from scanline.server.api.base.api_keys import ApiKeys
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.base.rate_limit import (
    BURST_SECONDS,
    MAX_DELAY_SECONDS,
    FrameThrottle,
    OverheadLimit,
)
from scanline.server.api.middleware import wrong_keys
from scanline.server.api.middleware.auth import ApiKeyMiddleware
from scanline.server.api.middleware.overhead import OverheadMiddleware
from scanline.server.api.middleware.wrong_keys import (
    FREE,
    MAX_ADDRESSES,
    MAX_DELAYED_OF_ONE,
    WrongKeyDelays,
)
from scanline.server.runtime.lifecycle import Lifecycle
from scanline.server.settings import Settings
from tests.support.server.error_answers import assert_refused
from tests.support.server.running_server import PATIENCE, serve
from tests.support.server.shared_servers import KEY, bearer

RATE = 10.0
BURST = RATE * BURST_SECONDS


@pytest.fixture
def clock(monkeypatch):
    """The time, which the test sets."""
    now = [1000.0]
    monkeypatch.setattr(rate_limit.time, "monotonic", lambda: now[0])
    return now


def test_a_burst_costs_nothing_and_what_is_beyond_it_waits_until_time_has_paid_for_it(clock):
    limit = OverheadLimit(RATE)
    for passed, units, delay in ((0, BURST, 0), (0, 20, 2), (1.5, 0, 0.5)):
        clock[0] += passed
        limit.charge("a", units)
        assert limit.delay("a") == pytest.approx(delay)
    clock[0] += 100
    limit.charge("a", BURST)
    assert limit.delay("a") == 0, "idle time is no credit, but it pays off all that there was"
    limit.charge("a", 1)
    assert limit.delay("a") == pytest.approx(0.1)


def test_no_client_pays_for_another_and_proxies_for_none(clock):
    limit = OverheadLimit(RATE)
    limit.charge("a", 1e9)
    limit.charge(None, 1e9)
    assert limit.delay("a") == MAX_DELAY_SECONDS
    assert limit.delay("b") == limit.delay(None) == 0


def test_what_waits_already_has_its_turn_first():
    async def waits():
        limit = OverheadLimit(RATE)
        draining = asyncio.Event()
        limit.charge("a", BURST + 1)
        began = time.monotonic()
        ended = []

        async def one():
            await limit.wait("a", draining)
            ended.append(time.monotonic() - began)

        await asyncio.gather(*(one() for _ in range(5)))
        return ended

    assert all(seconds >= 0.09 * (turn + 1) for turn, seconds in enumerate(asyncio.run(waits())))


async def test_nothing_is_held_of_what_has_waited_or_was_cancelled():
    limit = OverheadLimit(RATE)
    delays = WrongKeyDelays()
    draining = asyncio.Event()
    limit.charge("one", BURST + 1000 * RATE)
    for _ in range(FREE):
        await delays.wait("one")
    waits = [asyncio.create_task(limit.wait("one", draining)) for _ in range(2)]
    waits.append(asyncio.create_task(delays.wait("one")))
    await asyncio.sleep(0)
    account = limit.accounts["one"]
    assert (account.waiting, delays.delayed) == (2, {"one": 1})
    waits[0].cancel()
    waits[2].cancel()
    draining.set()
    await asyncio.gather(*waits, return_exceptions=True)
    assert (account.waiting, delays.delayed) == (0, {})


def test_nothing_waits_while_the_server_drains_and_a_probe_waits_no_longer_than_it_may():
    async def seconds(draining, most):
        limit = OverheadLimit(RATE)
        limit.charge("a", 1e9)
        began = time.monotonic()
        await limit.wait("a", draining, most)
        return time.monotonic() - began

    drained = asyncio.Event()
    drained.set()
    assert asyncio.run(seconds(drained, 1e9)) < MAX_DELAY_SECONDS / 2
    assert 0.05 < asyncio.run(seconds(asyncio.Event(), 0.06)) < MAX_DELAY_SECONDS / 2


def test_the_clients_that_are_remembered_are_bounded():
    limit = OverheadLimit(RATE)
    delays = WrongKeyDelays()
    for number in range(2 * max(rate_limit.MAX_CLIENTS, MAX_ADDRESSES)):
        limit.charge(f"client {number}", 1)
        delays._count(f"address {number}")
    assert (len(limit.accounts), len(delays.counts)) == (rate_limit.MAX_CLIENTS, MAX_ADDRESSES)


@pytest.mark.parametrize(
    ("rate", "frames", "expected"),
    [(1000, [200], [0.2]), (1000, [100, 100, 100], [0.1, 0.2, 0.3]), (None, [10**9], [])],
)
def test_frames_of_all_websockets_are_followed_by_a_pause(monkeypatch, rate, frames, expected):
    """The clock stands still, and pauses are recorded instead of slept."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    async def send():
        throttle = FrameThrottle(rate)
        for count in frames:
            await throttle.pause(count)

    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(monotonic=lambda: 7.0))
    monkeypatch.setattr(rate_limit, "asyncio", SimpleNamespace(sleep=sleep))
    asyncio.run(send())
    assert pauses == pytest.approx(expected)


def test_the_delay_of_wrong_keys_doubles_up_to_a_limit_and_is_forgotten(monkeypatch):
    delays = WrongKeyDelays()
    seconds = [delays._count("address a") for _ in range(FREE + 8)]
    assert seconds == [0.0] * FREE + [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert delays._count("address b") == 0
    monkeypatch.setattr(wrong_keys, "MEMORY_SECONDS", -1.0)
    assert delays._count("address a") == 0


def test_answers_that_wait_are_bounded_for_one_address_and_for_all(monkeypatch):
    for name, value in (
        ("FREE", 0),
        ("FIRST_SECONDS", 0.01),
        ("MAX_DELAYED", MAX_DELAYED_OF_ONE + 10),
    ):
        monkeypatch.setattr(wrong_keys, name, value)

    async def answers(*clients):
        return await asyncio.gather(*(delays.wait(client) for client in clients))

    delays = WrongKeyDelays()
    assert sum(asyncio.run(answers(*["one"] * 100))) == MAX_DELAYED_OF_ONE
    assert (
        sum(asyncio.run(answers(*(f"client {number}" for number in range(100)))))
        == MAX_DELAYED_OF_ONE + 10
    )
    assert not delays.delayed


def test_a_refused_guess_is_overhead_as_five_requests_are(monkeypatch):
    monkeypatch.setattr(wrong_keys, "LONGEST_SECONDS", 0.01)
    guesses = 2 * MAX_DELAYED_OF_ONE + FREE
    refused = MAX_DELAYED_OF_ONE
    statuses = []

    async def send(message):
        statuses.append(message.get("status"))

    async def units():
        budgets = Budgets(Settings())
        keys = ApiKeys([SecretStr(KEY)])
        app = OverheadMiddleware(
            ApiKeyMiddleware(PlainTextResponse(""), keys), budgets, Lifecycle()
        )
        headers = [(b"authorization", b"Bearer wrong")]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/models",
            "headers": headers,
            "client": ("10.0.0.1", 1),
        }
        await asyncio.gather(
            *(app({**scope}, Request(scope).receive, send) for _ in range(guesses))
        )
        return budgets.overhead.accounts["10.0.0.1"].units

    assert asyncio.run(units()) == pytest.approx(
        guesses + refused * rate_limit.REFUSED_KEY_UNITS, abs=5
    )
    assert statuses.count(429) == refused


def test_guesses_wait_and_a_right_key_does_not(grey_directory):
    async def guess_and_use(url):
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:

            async def guess(number):
                return await client.get("/v1/models", headers=bearer(f"wrong-{number}"))

            began = time.monotonic()
            first = [await guess(number) for number in range(FREE + 4)]
            waited = time.monotonic() - began
            guesses = [
                asyncio.create_task(guess(number)) for number in range(2 * MAX_DELAYED_OF_ONE)
            ]
            # one that is refused at once
            await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
            assert (await client.get("/v1/models", headers=bearer(KEY))).status_code == 200
            assert (await client.get("/v1/models")).status_code == 401  # no key is no guess
            return first + await asyncio.gather(*guesses), waited

    with serve(grey_directory, "--api-key", KEY) as server:
        answers, waited = asyncio.run(guess_and_use(server.url))
    assert waited >= 0.1 + 0.2 + 0.4 + 0.8
    assert {answer.status_code for answer in answers[FREE + 4 :]} == {401, 429}
    for number, answer in enumerate(answers):
        refusal = (401, None, "invalid_api_key")
        if answer.status_code == 429 and number >= FREE + 4:
            refusal = (429, None, "too_many_wrong_keys")
            assert answer.headers["retry-after"] == "2"
        assert_refused(answer, *refusal)
