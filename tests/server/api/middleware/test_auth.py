"""API keys: which requests need one, and clients that send many wrong ones."""

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from scanline.server.api.api_keys import ApiKeys
from scanline.server.api.middleware import wrong_keys
from scanline.server.api.middleware.auth import ApiKeyMiddleware
from scanline.server.api.middleware.overhead import OverheadMiddleware
from scanline.server.api.middleware.wrong_keys import FREE, MAX_ADDRESSES, MAX_DELAYED_OF_ONE, WrongKeyDelays
from scanline.server.api.rate_limit import REFUSED_KEY_UNITS
from scanline.server.api.transport.budgets import Budgets
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.runtime.lifecycle import Lifecycle
from scanline.server.settings import Settings
from tests.support.commands import refused
from tests.support.server.error_answers import answer_of, assert_error, assert_refused
from tests.support.server.running_server import PATIENCE, Server, serve
from tests.support.server.shared_servers import KEY, SECOND_KEY, bearer
from tests.support.server.websocket_client import connected

OPEN = ("/healthz", "/readyz", "/", "/docs", "/openapi.json")  # and the pages' files below /assets/, and nothing else
WRONG = f"{KEY}x"
WRONG_HEADERS = {  # label: an Authorization header without a valid key
    "another key": f"Bearer {WRONG}",
    "the beginning of a key": f"Bearer {KEY[:-1]}",
    "the keys together": f"Bearer {KEY},{SECOND_KEY}",
    "no key": "Bearer",
    "no scheme": KEY,
    "another scheme": f"Basic {KEY}",
}
BAD = {  # label: an invalid key, the error message
    "empty": ("", "must not be empty"),
    "a space": ("sk seven", "printable ASCII without spaces and commas"),
    "a comma": ("sk,seven", "printable ASCII without spaces and commas"),
    "a line": ("sk-seven\n", "printable ASCII without spaces and commas"),
    "not ASCII": ("sk-sieben-ß", "printable ASCII without spaces and commas"),
}


def subprotocols(key: str, *others: str) -> list[Subprotocol]:
    """The subprotocols that a browser offers to send a key."""
    return [Subprotocol(one) for one in (*others, f"key.{urlsafe_b64encode(key.encode()).decode().rstrip('=')}")]


def routes(of: Any) -> Iterator[Any]:
    """All routes of an application, including those of its routers."""
    for route in of.routes:
        if part := getattr(route, "original_router", None):  # newer FastAPI versions keep a router as one route
            yield from routes(part)
        else:
            yield route


@pytest.fixture
def keyless(guarded_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded_server.url, timeout=PATIENCE) as client:
        yield client


def test_every_route_needs_a_key(keyless: httpx.Client, guarded_server: Server, grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),), api_keys=(SecretStr(KEY),))
    closed = [route for route in routes(build(settings, served_models(settings))) if route.path not in OPEN]
    assert {"/metrics", "/v1/models", "/v1/images/generations", "/v1/images/stream"} <= {one.path for one in closed}
    for route in closed:
        path = route.path.replace("{", "").replace("}", "")
        for method in getattr(route, "methods", None) or ("GET",):
            assert keyless.request(method, path).status_code == 401, f"{method} {path} is open"
        with pytest.raises(InvalidStatus, match="401"), connected(guarded_server.url, path=path):
            pass


def test_probes_and_the_page_are_open_and_near_misses_are_not(keyless: httpx.Client) -> None:
    for path in OPEN:
        assert keyless.get(path).status_code == 200
    for path in ("/assets", "/healthz/", "/healthz//", "/healthz%2f", "/HEALTHZ", "/v1/healthz", "/nowhere"):
        assert_refused(keyless.get(path), 401, None, "invalid_api_key")


def test_the_openapi_description_marks_routes_that_need_a_key(keyless: httpx.Client, client: httpx.Client) -> None:
    described = keyless.get("/openapi.json").json()
    assert described["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    assert described["security"] == [{"key": []}]
    operations = {path: operation for path, by_method in described["paths"].items() for operation in by_method.values()}
    assert {path for path, operation in operations.items() if operation.get("security") == []} == {
        "/healthz",
        "/readyz",
    }
    described = client.get("/openapi.json").json()
    assert described["security"] == [{}, {"key": []}]


def test_a_subprotocol_is_no_key_for_http_and_no_probe_a_websocket(
    keyless: httpx.Client, guarded_server: Server
) -> None:
    (protocol,) = subprotocols(KEY)
    assert keyless.get("/v1/models", headers={"sec-websocket-protocol": protocol}).status_code == 401
    with pytest.raises(InvalidStatus, match="401"), connected(guarded_server.url, path="/healthz"):
        pass


def test_each_key_is_accepted_and_a_wrong_one_or_two_are_refused(keyless: httpx.Client) -> None:
    for key in (KEY, SECOND_KEY):
        for scheme in ("Bearer", "bearer"):
            assert keyless.get("/v1/models", headers={"authorization": f"{scheme} {key}"}).status_code == 200
    for wrong in WRONG_HEADERS.values():
        response = keyless.get("/v1/models", headers={"authorization": wrong})
        assert_refused(response, 401, None, "invalid_api_key")
        assert response.headers["www-authenticate"] == "Bearer"
    several = [("authorization", f"Bearer {key}") for key in ("a-guess", KEY)]
    assert_refused(keyless.get("/v1/models", headers=several), 401, None, "invalid_api_key")


def test_a_refusal_comes_before_the_body_is_read(keyless: httpx.Client) -> None:
    """A body beyond max_body_bytes, which with a key is answered with 413."""
    body = (bytes(1_000_000) for _ in range(20))
    assert_refused(keyless.post("/v1/images/generations", content=body), 401, None, "invalid_api_key")


def test_a_websocket_opens_with_a_subprotocol_or_a_header(guarded_server: Server, server: Server) -> None:
    for url, key in ((guarded_server.url, KEY), (guarded_server.url, SECOND_KEY), (server.url, KEY)):
        with connected(url, subprotocols=subprotocols(key, "scanline")) as websocket:
            assert websocket.socket.subprotocol == "scanline"
            assert websocket.paint(type="generate").order[-1] == "done"
        with connected(url, additional_headers=bearer(key)) as websocket:
            assert websocket.paint(type="generate").order[-1] == "done"


@pytest.mark.parametrize("offered", [[], ["scanline"], subprotocols(WRONG, "scanline"), ["scanline", "key.a"]])
def test_a_websocket_without_a_key_is_refused(guarded_server: Server, offered: list[Subprotocol]) -> None:
    with pytest.raises(InvalidStatus) as caught, connected(guarded_server.url, subprotocols=offered or None):
        pass
    answer = answer_of(caught.value)
    assert_refused(answer, 401, None, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_no_key_is_ever_shown(guarded_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither log nor response shows a key, valid or invalid, plain or encoded; nor do settings, also of a variable."""
    answers = [httpx.get(f"{guarded_server.url}/v1/models", headers=bearer(key)) for key in (KEY, SECOND_KEY, WRONG)]
    assert [answer.status_code for answer in answers] == [200, 200, 401]
    shown = [answer.text for answer in answers]
    with connected(guarded_server.url, subprotocols=subprotocols(KEY, "scanline")) as websocket:
        assert websocket.socket.response is not None
        shown.append(str(websocket.socket.response.headers))
    with pytest.raises(InvalidStatus) as caught, connected(guarded_server.url, subprotocols=subprotocols(WRONG)):
        pass
    shown.append(answer_of(caught.value).text)
    shown += guarded_server.log
    assert '"status": 401' in "".join(shown)
    monkeypatch.setenv("SCANLINE_API_KEYS", f"{KEY},{SECOND_KEY}")
    settings = Settings()
    assert [key.get_secret_value() for key in settings.api_keys] == [KEY, SECOND_KEY]
    for secret in (KEY, SECOND_KEY, *subprotocols(KEY), subprotocols(KEY)[0].removeprefix("key.")):
        assert secret not in "".join([*shown, repr(settings)])


def test_the_log_states_whether_keys_are_needed(guarded_server: Server, server: Server) -> None:
    needed = "API key required on every route except probes, the page and /docs (2 keys set)"
    assert any(needed in line for line in guarded_server.log)
    assert any("No API key set: anyone who can reach this address can use it." in line for line in server.log)


def test_an_invalid_key_option_or_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, said in BAD.values():
        sentence = refused("serve", "--api-key", KEY, "--api-key", key)
        assert sentence.startswith("--api-key: a key must")
        assert said in sentence
        assert KEY not in sentence
    for keys in ("", ",", f"{KEY},", f"{KEY}, {SECOND_KEY}"):
        monkeypatch.setenv("SCANLINE_API_KEYS", keys)
        sentence = refused("serve")
        assert sentence.startswith("--api-key: a key must")
        assert KEY not in sentence


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
