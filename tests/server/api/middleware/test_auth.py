"""API keys: every route that is not listed as open needs one, and no key is ever shown."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.commands import refused
from tests.support.server.error_answers import answer_of, assert_refused
from tests.support.server.running_server import PATIENCE, Server
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
