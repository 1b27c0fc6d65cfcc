"""Wrong API keys are answered later and later, right ones at once; nothing about them grows."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message

from scanline.server.api.api_keys import ApiKeys
from scanline.server.api.middleware import wrong_keys
from scanline.server.api.middleware.auth import ApiKeyMiddleware
from scanline.server.api.middleware.overhead import OverheadMiddleware
from scanline.server.api.middleware.wrong_keys import FREE, MAX_ADDRESSES, MAX_DELAYED_OF_ONE, WrongKeyDelays
from scanline.server.api.rate_limit import REFUSED_KEY_UNITS
from scanline.server.api.transport.budgets import Budgets
from scanline.server.runtime.lifecycle import Lifecycle
from scanline.server.settings import Settings
from tests.support.server.error_answers import assert_error
from tests.support.server.running_server import PATIENCE, Server, serve
from tests.support.server.shared_servers import KEY, bearer


@pytest.fixture(scope="module")
def locked_server(grey_directory: Path) -> Iterator[Server]:
    with serve(grey_directory, "--api-key", KEY) as server:
        yield server


def test_the_delay_doubles_up_to_a_limit_and_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = WrongKeyDelays()
    seconds = [delays._count("address a") for _ in range(FREE + 8)]
    assert seconds == [0.0] * FREE + [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert delays._count("address b") == 0
    monkeypatch.setattr(wrong_keys, "MEMORY_SECONDS", -1.0)
    assert delays._count("address a") == 0


def test_the_addresses_that_are_remembered_are_bounded() -> None:
    delays = WrongKeyDelays()
    for number in range(2 * MAX_ADDRESSES):
        delays._count(f"address {number}")
    assert len(delays.counts) == MAX_ADDRESSES


def test_answers_that_wait_are_bounded_for_one_address_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_keys, "FREE", 0)
    monkeypatch.setattr(wrong_keys, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(wrong_keys, "MAX_DELAYED", MAX_DELAYED_OF_ONE + 10)

    async def answers(*clients: str) -> list[bool]:
        return await asyncio.gather(*(delays.wait(client) for client in clients))

    delays = WrongKeyDelays()
    assert sum(asyncio.run(answers(*["one"] * 100))) == MAX_DELAYED_OF_ONE
    assert sum(asyncio.run(answers(*(f"client {number}" for number in range(100))))) == MAX_DELAYED_OF_ONE + 10
    assert not delays.delayed


def test_a_refused_guess_is_overhead_as_five_requests_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_keys, "LONGEST_SECONDS", 0.01)
    guesses, refused = 2 * MAX_DELAYED_OF_ONE + FREE, MAX_DELAYED_OF_ONE
    statuses = []

    async def send(message: Message) -> None:
        statuses.append(message.get("status"))

    async def units() -> float:
        budgets, keys = Budgets(Settings()), ApiKeys([SecretStr(KEY)])
        app = OverheadMiddleware(ApiKeyMiddleware(PlainTextResponse(""), keys), budgets, Lifecycle())
        headers = [(b"authorization", b"Bearer wrong")]
        scope = {"type": "http", "method": "GET", "path": "/v1/models", "headers": headers, "client": ("10.0.0.1", 1)}
        await asyncio.gather(*(app({**scope}, Request(scope).receive, send) for _ in range(guesses)))
        return budgets.overhead.accounts["10.0.0.1"].units

    assert asyncio.run(units()) == pytest.approx(guesses + refused * REFUSED_KEY_UNITS, abs=5)
    assert statuses.count(429) == refused


def test_guesses_wait_and_a_right_key_does_not(locked_server: Server) -> None:
    async def guess_and_use() -> tuple[list[httpx.Response], float]:
        async with httpx.AsyncClient(base_url=locked_server.url, timeout=PATIENCE) as client:
            began = time.monotonic()
            for number in range(FREE + 4):
                answer = await client.get("/v1/models", headers=bearer(f"wrong-{number}"))
                assert answer.status_code == 401
            waited = time.monotonic() - began
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(base_url=locked_server.url, timeout=PATIENCE, limits=limits) as many:
                guesses = [
                    asyncio.create_task(many.get("/v1/models", headers=bearer(f"wrong-{number}")))
                    for number in range(2 * MAX_DELAYED_OF_ONE)
                ]
                await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)  # one that is refused at once
                assert (await client.get("/v1/models", headers=bearer(KEY))).status_code == 200
                assert (await client.get("/v1/models")).status_code == 401  # no key is no guess
                return await asyncio.gather(*guesses), waited

    answers, waited = asyncio.run(guess_and_use())
    assert waited >= 0.1 + 0.2 + 0.4 + 0.8
    statuses = {answer.status_code for answer in answers}
    assert statuses == {401, 429}
    refusal = next(answer for answer in answers if answer.status_code == 429)
    assert refusal.json()["error"]["code"] == "too_many_wrong_keys"
    assert refusal.headers["retry-after"] == "2"
    for answer in answers:
        if answer.status_code == 401:
            assert_error(answer.json(), None, "invalid_api_key")
