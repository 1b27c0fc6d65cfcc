"""Keys: nothing that is not listed as open is open, and a key is told to nobody."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from pydantic import SecretStr
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from scanline.server.api.middleware.auth import ApiKeyMiddleware
from scanline.server.app import build
from scanline.server.registry import served_models
from scanline.server.settings import Settings
from tests.support.commands import scanline
from tests.support.error_answers import answer_of, assert_refused
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.websocket_client import connected

OPEN = ("/healthz", "/readyz", "/")  # and the files of the page below /assets/, and nothing else
KEY, SECOND = "sk-7?>~key/+", "sk-second"  # the first has what base64 and base64url write differently
WRONG = f"{KEY}x"
WRONG_HEADERS = {  # label: an Authorization that is nobody's
    "another key": f"Bearer {WRONG}",
    "the beginning of a key": f"Bearer {KEY[:-1]}",
    "the keys together": f"Bearer {KEY},{SECOND}",
    "no key": "Bearer",
    "no scheme": KEY,
    "another scheme": f"Basic {KEY}",
}
BAD = {  # label: a key that cannot be, what is said
    "empty": ("", "must not be empty"),
    "a space": ("sk seven", "printable ASCII without spaces and commas"),
    "a comma": ("sk,seven", "printable ASCII without spaces and commas"),
    "a line": ("sk-seven\n", "printable ASCII without spaces and commas"),
    "not ASCII": ("sk-sieben-ß", "printable ASCII without spaces and commas"),
}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def subprotocols(key: str, *others: str) -> list[Subprotocol]:
    """What a browser offers for a key."""
    return [Subprotocol(one) for one in (*others, f"key.{urlsafe_b64encode(key.encode()).decode().rstrip('=')}")]


def routes(of: Any) -> Iterator[Any]:
    """All routes of an application, those of its parts among them."""
    for route in of.routes:
        if part := getattr(route, "original_router", None):  # newer FastAPIs keep a part as one route
            yield from routes(part)
        else:
            yield route


@pytest.fixture(scope="module")
def locked(grey_directory: Path) -> Iterator[Server]:
    with serve(grey_directory, "--slots", "8", "--api-key", KEY, "--api-key", SECOND) as server:
        yield server


@pytest.fixture
def stranger(locked: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=locked.url, timeout=PATIENCE) as client:
        yield client


def test_every_route_wants_a_key(stranger: httpx.Client, locked: Server, grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),), api_keys=(SecretStr(KEY),))
    closed = [route for route in routes(build(settings, served_models(settings))) if route.path not in OPEN]
    assert {"/docs", "/openapi.json", "/v1/images/generations", "/v1/images/stream"} <= {one.path for one in closed}
    for route in closed:
        path = route.path.replace("{", "").replace("}", "")
        for method in getattr(route, "methods", None) or ("GET",):
            assert stranger.request(method, path).status_code == 401, f"{method} {path} is open"
        with pytest.raises(InvalidStatus, match="401"), connected(locked.url, path=path):
            pass


@pytest.mark.parametrize("path", OPEN)
def test_probes_and_the_page_are_open(stranger: httpx.Client, path: str) -> None:
    assert stranger.get(path).status_code == 200


@pytest.mark.parametrize(
    "path", ["/assets", "/healthz/", "/healthz//", "/healthz%2f", "/HEALTHZ", "/v1/healthz", "/nowhere"]
)
def test_what_is_no_route_wants_a_key(stranger: httpx.Client, path: str) -> None:
    assert_refused(stranger.get(path), 401, None, "invalid_api_key")


def test_the_description_tells_what_wants_a_key(stranger: httpx.Client) -> None:
    told = stranger.get("/openapi.json", headers=bearer(KEY)).json()
    assert told["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    assert told["security"] == [{"key": []}]
    operations = {path: operation for path, by_method in told["paths"].items() for operation in by_method.values()}
    assert {path for path, operation in operations.items() if operation.get("security") == []} == {*OPEN} - {"/"}


def test_a_server_without_keys_describes_none(client: httpx.Client) -> None:
    told = client.get("/openapi.json").json()
    assert "security" not in told
    assert "securitySchemes" not in told["components"]


def test_a_websocket_to_a_probe_wants_a_key(locked: Server) -> None:
    with pytest.raises(InvalidStatus, match="401"), connected(locked.url, path="/healthz"):
        pass


@pytest.mark.parametrize("key", [KEY, SECOND])
def test_each_key_opens(stranger: httpx.Client, key: str) -> None:
    assert stranger.get("/v1/models", headers=bearer(key)).status_code == 200


def test_the_scheme_may_be_small(stranger: httpx.Client) -> None:
    assert stranger.get("/v1/models", headers={"authorization": f"bearer {KEY}"}).status_code == 200


@pytest.mark.parametrize("label", WRONG_HEADERS)
def test_a_wrong_key_is_refused(stranger: httpx.Client, label: str) -> None:
    response = stranger.get("/v1/models", headers={"authorization": WRONG_HEADERS[label]})
    assert_refused(response, 401, None, "invalid_api_key")


def test_a_refusal_names_the_scheme(stranger: httpx.Client) -> None:
    assert stranger.get("/v1/models").headers["www-authenticate"] == "Bearer"


def test_a_refusal_comes_before_the_body_is_read(stranger: httpx.Client) -> None:
    """A body beyond max_body_bytes, which is 413 for who has a key."""
    body = (bytes(1_000_000) for _ in range(20))
    assert_refused(stranger.post("/v1/images/generations", content=body), 401, None, "invalid_api_key")


def test_a_subprotocol_opens_no_http(stranger: httpx.Client) -> None:
    (protocol,) = subprotocols(KEY)
    assert stranger.get("/v1/models", headers={"sec-websocket-protocol": protocol}).status_code == 401


def test_the_official_client_paints_with_its_key(locked: Server) -> None:
    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key=SECOND, max_retries=0) as client:
        assert len(client.images.generate(prompt="", n=2).data) == 2


def test_the_official_client_reads_a_refusal(locked: Server) -> None:
    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key=WRONG, max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.images.generate(prompt="")
        assert caught.value.code == "invalid_api_key"


def test_a_websocket_opens_with_a_header(locked: Server) -> None:
    with connected(locked.url, additional_headers=bearer(KEY)) as painter:
        assert painter.paint(type="generate").order[-1] == "done"


@pytest.mark.parametrize("key", [KEY, SECOND])
def test_a_websocket_opens_with_a_subprotocol(locked: Server, key: str) -> None:
    with connected(locked.url, subprotocols=subprotocols(key, "scanline")) as painter:
        assert painter.paint(type="generate").order[-1] == "done"


def test_the_subprotocol_without_the_key_is_taken(locked: Server) -> None:
    with connected(locked.url, subprotocols=subprotocols(KEY, "scanline")) as painter:
        assert painter.socket.subprotocol == "scanline"


def test_a_server_without_keys_takes_the_subprotocol_too(server: Server) -> None:
    with connected(server.url, subprotocols=subprotocols(KEY, "scanline")) as painter:
        assert painter.socket.subprotocol == "scanline"


@pytest.mark.parametrize("offered", [[], ["scanline"], subprotocols(WRONG, "scanline"), ["scanline", "key.a"]])
def test_a_websocket_without_a_key_is_refused_before_it_opens(locked: Server, offered: list[Subprotocol]) -> None:
    with pytest.raises(InvalidStatus) as caught, connected(locked.url, subprotocols=offered or None):
        pass
    answer = answer_of(caught.value)
    assert_refused(answer, 401, None, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_servers_that_cannot_answer_a_websocket_close_it() -> None:
    async def never(*_: object) -> None:
        raise AssertionError("nobody may come through")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/images/stream", "headers": [], "subprotocols": []}
    asyncio.run(ApiKeyMiddleware(never, [SecretStr(KEY)])(scope, never, send))
    assert [(one["type"], one["code"]) for one in sent] == [("websocket.close", 4401)]


def test_a_variable_holds_keys_between_commas(grey_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCANLINE_API_KEYS", f"{KEY},{SECOND}")
    with serve(grey_directory) as server:
        answers = [httpx.get(f"{server.url}/v1/models", headers=bearer(key)) for key in (KEY, SECOND, WRONG)]
    assert [answer.status_code for answer in answers] == [200, 200, 401]


def test_keys_are_told_to_nobody(grey_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither log nor answer nor process list shows a key, right or wrong, whole or coded."""
    monkeypatch.setenv("SCANLINE_API_KEYS", KEY)
    with serve(grey_directory) as server:
        told = [Path(f"/proc/{pid}/cmdline").read_text() for pid in (server.process.pid, server.engine)]
        told += [httpx.get(f"{server.url}/v1/models", headers=bearer(key)).text for key in (KEY, WRONG)]
        with connected(server.url, subprotocols=subprotocols(KEY, "scanline")) as painter:
            assert painter.socket.response is not None
            told.append(str(painter.socket.response.headers))
        with pytest.raises(InvalidStatus) as caught, connected(server.url, subprotocols=subprotocols(WRONG)):
            pass
        told.append(answer_of(caught.value).text)
    told += server.log
    assert "status=401" in "".join(told)
    for secret in (KEY, *subprotocols(KEY), subprotocols(KEY)[0].removeprefix("key.")):
        assert secret not in "".join(told)


def test_the_first_lines_say_that_keys_are_wanted(locked: Server) -> None:
    assert any("API key required on every route except health probes (2 keys set)" in line for line in locked.log)


def test_the_first_lines_say_where_none_is_wanted(server: Server) -> None:
    assert any("No API key set: anyone who can reach this address can use it." in line for line in server.log)


def test_settings_show_no_key() -> None:
    assert KEY not in repr(Settings(api_keys=(SecretStr(KEY),)))


@pytest.mark.parametrize("label", BAD)
def test_a_key_that_cannot_be_is_refused(label: str) -> None:
    key, said = BAD[label]
    ran = scanline("serve", "--api-key", KEY, "--api-key", key)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("scanline: --api-key: a key must")
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("keys", ["", ",", f"{KEY},", f"{KEY}, {SECOND}"])
def test_a_variable_that_holds_no_keys_is_refused(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCANLINE_API_KEYS", keys)
    ran = scanline("serve")
    assert ran.status == 2
    assert ran.err.startswith("scanline: --api-key: a key must")


def test_a_refused_key_is_not_repeated() -> None:
    said = scanline("serve", "--api-key", KEY, "--api-key", f"{SECOND} {WRONG}").err
    assert KEY not in said
    assert SECOND not in said
