"""Host names and origins of browsers: those that are allowed, and all others."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from websockets.exceptions import InvalidStatus

from scanline.server.api.middleware.hosts import LOOPBACK_NAMES, HostMiddleware, served_hosts
from scanline.server.api.middleware.origins import OriginMiddleware
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.commands import refused
from tests.support.server.error_answers import answer_of, assert_refused
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import KEY, PAGE, SECOND_PAGE, bearer
from tests.support.server.sockets import WEBSOCKET_HEAD, open_connection, parse_response, read_until_closed
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE

REBOUND = "rebound.evil.example:8000"
OWN = ("localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000", "localhost:")
FOREIGN_HOSTS = (REBOUND, "localhost@evil.example", "127.0.0.1.evil.example", "192.168.0.1", "::1", "")
BAD_HOSTS = ("", "https://a.example", "a.example:80", "a.example/", "a b", "a.example,b.example,", "ä.example")


@pytest.fixture(scope="module")
def public_server(grey_directory: Path) -> Iterator[Server]:
    """On all addresses, for one name; --allow-origin as well, so that CORS is there."""
    options = ("--host", "0.0.0.0", "--allow-host", "Images.example", "--allow-origin", "https://page.example")
    with serve(grey_directory, *options) as server:
        yield server


def test_a_server_on_loopback_answers_to_its_own_names_and_one_with_keys_to_any(
    client: httpx.Client, guarded_server: Server
) -> None:
    for host in OWN:
        assert client.get("/v1/models", headers={"host": host}).status_code == 200
    headers = {**bearer(KEY), "host": "any.example"}
    assert httpx.get(f"{guarded_server.url}/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_page_whose_name_was_bound_to_loopback_gets_nothing(client: httpx.Client, server: Server, host: str) -> None:
    headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    for path in ("/", "/v1/models", "/docs", "/openapi.json", "/nowhere"):
        assert_refused(client.get(path, headers=headers), 421, None, "host_not_allowed")
    answer = client.post("/v1/images/generations", json={}, headers=headers)
    assert_refused(answer, 421, None, "host_not_allowed")
    sent = WEBSOCKET_HEAD.replace(b"127.0.0.1", host.encode()) + b"origin: http://%s\r\n\r\n" % host.encode()
    with open_connection(server) as connection:
        connection.sendall(sent)
        assert_refused(parse_response(read_until_closed(connection)), 421, None, "host_not_allowed")


def test_probes_may_use_an_address_but_no_foreign_name(client: httpx.Client) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        for host in ("10.1.2.3:8000", "[fd00::2]:8000"):
            assert client.get(path, headers={"host": host}).status_code == 200
        assert_refused(client.get(path, headers={"host": REBOUND}), 421, None, "host_not_allowed")


def test_a_request_without_the_header_is_served_and_one_with_a_second_name_is_not(server: Server) -> None:
    for headers, status in ((b"", 200), (b"host: localhost\r\nhost: evil.example\r\n", 400)):
        with open_connection(server) as connection:
            connection.sendall(b"GET /v1/models HTTP/1.0\r\n" + headers + b"\r\n")
            assert parse_response(read_until_closed(connection)).status_code == status


def test_a_public_server_answers_only_to_the_names_it_was_given(public_server: Server) -> None:
    url = public_server.url.replace("0.0.0.0", "127.0.0.1")
    with httpx.Client(base_url=url) as client:
        for host in ("images.example", "IMAGES.example:443"):
            own = {"host": host, "origin": f"https://{host}"}
            assert client.post("/v1/images/generations", json={}, headers=own).status_code == 200
        for host in ("localhost", "127.0.0.1", "other.example"):
            assert client.get("/v1/models", headers={"host": host}).status_code == 421
        assert client.get("/readyz", headers={"host": "127.0.0.1"}).status_code == 200
        preflight = {"host": "evil.example", "origin": "https://page.example", "access-control-request-method": "POST"}
        assert client.options("/v1/models", headers=preflight).status_code == 421


def test_served_names_follow_from_address_keys_and_options() -> None:
    assert served_hosts("127.0.0.1", (), is_local=True, needs_key=False) == LOOPBACK_NAMES
    more = served_hosts("::1", ("a.example", "fd00::1"), is_local=True, needs_key=False)
    assert more == LOOPBACK_NAMES | {"a.example", "[fd00::1]"}
    assert served_hosts("127.0.0.1", (), is_local=True, needs_key=True) is None
    assert served_hosts("0.0.0.0", (), is_local=False, needs_key=False) is None
    assert served_hosts("0.0.0.0", ("a.example",), is_local=False, needs_key=True) == {"a.example"}
    assert served_hosts("127.0.0.1", ("*",), is_local=True, needs_key=False) is None


def test_an_invalid_host_option_is_refused() -> None:
    for host in BAD_HOSTS:
        assert refused("serve", "--allow-host", host).startswith("--allow-host: a host must be * or a name")


# What browsers and others may send: near misses of our own names among them.
names = st.sampled_from(["localhost", "127.0.0.1", "[::1]", "evil.example", "localhost.evil.example", "", "[", "a b"])
ports = st.sampled_from(["", ":", ":8000", ":80", ":8000:1", "@evil.example"])
hosts = st.one_of(st.builds(str.__add__, names, ports), st.text(st.characters(max_codepoint=255), max_size=30))
origins = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["http://", "https://", "HTTP://", "", "null"]), hosts), st.just("null")
)
sites = st.sampled_from(["same-origin", "none", "same-site", "cross-site", "", "x"])
headers = st.lists(
    st.one_of(
        st.tuples(st.just("host"), hosts),
        st.tuples(st.just("origin"), origins),
        st.tuples(st.just("sec-fetch-site"), sites),
    ),
    max_size=5,
)


def reached(scope: dict[str, Any]) -> bool:
    """Whether a request gets through both checks; each refusal must be one of theirs."""
    passed, sent = [], []

    async def app(*_: Any) -> None:
        passed.append(True)

    async def send(message: Any) -> None:
        sent.append(message)

    checks = HostMiddleware(OriginMiddleware(app, ()), LOOPBACK_NAMES)
    asyncio.run(checks(scope, send, send))  # type: ignore[arg-type]
    assert passed or sent[0]["status"] in (403, 421)
    return bool(passed)


@given(st.sampled_from(["http", "websocket"]), st.sampled_from(["GET", "POST", "DELETE", "X"]), headers)
def test_no_header_lets_a_foreign_page_through(kind: str, method: str, sent: list[tuple[str, str]]) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in sent]
    scope: dict[str, Any] = {"type": kind, "path": "/v1/models", "headers": encoded, "extensions": {}}
    scope |= {"method": method} if kind == "http" else {"extensions": {"websocket.http.response": {}}}
    if not reached(scope):
        return
    values = {
        key: [value.lower() for name, value in sent if name == key] for key in ("host", "origin", "sec-fetch-site")
    }
    for host in values["host"]:
        assert host.rpartition(":")[0] in LOOPBACK_NAMES or host in LOOPBACK_NAMES
    if kind == "http" and method == "GET":
        return
    assert not {*values["sec-fetch-site"]} - {"same-origin", "none"}
    for origin in values["origin"]:
        assert [origin.partition("://")[2]] == values["host"]


FOREIGN = "https://page.example.evil"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
FOREIGN_HEADERS = [  # what a browser sends for a page that is not ours
    {"origin": PAGE, "sec-fetch-site": "cross-site"},
    {"origin": PAGE},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://localhost:1", "sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "new-value"},
]
PICTURE = {"image": ("picture.png", b"not looked at", "image/png")}  # a form with it needs no preflight request
BAD = ("", "page.example", "https://", f"{PAGE}/", "https://Page.example", f"{PAGE}, *", "null")


@pytest.fixture
def page(guarded_server: Server) -> Iterator[httpx.Client]:
    """A script of an allowed page."""
    headers = {"origin": PAGE, **bearer(KEY)}
    with httpx.Client(base_url=guarded_server.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def opens(server: Server, origin: str | None) -> bool:
    """Whether a websocket of that page opens; fails where it is refused for another reason."""
    try:
        with connected(server.url, origin=origin, additional_headers=bearer(KEY)):
            return True
    except InvalidStatus as refused:
        assert_refused(answer_of(refused), 403, None, "origin_not_allowed")
        return False


def test_the_servers_own_page_allowed_ones_and_programs_open_a_websocket_and_foreign_pages_do_not(
    server: Server, guarded_server: Server
) -> None:
    for origin in (None, server.url, server.url.replace("http:", "https:")):
        assert opens(server, origin)
    for origin in (PAGE, "null", "", "file://", server.url.rpartition(":")[0]):
        assert not opens(server, origin)
    assert all(opens(guarded_server, origin) for origin in (PAGE, SECOND_PAGE, None))
    assert not opens(guarded_server, FOREIGN)


def test_without_allowed_origins_there_are_no_cors_headers(client: httpx.Client) -> None:
    response = client.get("/v1/models", headers={"origin": PAGE})
    assert not [name for name in response.headers if name.startswith("access-control-")]
    response = client.options("/v1/images/generations", headers={"origin": PAGE, **PREFLIGHT})
    assert response.status_code == 405


def test_only_allowed_pages_may_read_answers_and_refusals(page: httpx.Client) -> None:
    assert page.get("/v1/models").headers["access-control-allow-origin"] == PAGE
    response = page.get("/v1/models", headers={"authorization": "Bearer wrong"})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (401, PAGE)
    response = page.post("/v1/images/generations", json={})
    exposed = response.headers["access-control-expose-headers"].split(", ")
    assert {"x-request-id", "x-scanline-seed"} <= set(exposed)
    assert "access-control-allow-origin" not in page.get("/v1/models", headers={"origin": FOREIGN}).headers


def test_a_star_allows_all_pages(grey_directory: Path) -> None:
    settings = Settings(models=(str(grey_directory),), allow_origins=("*",))
    client = TestClient(build(settings, served_models(settings)))
    answer = client.get("/v1/models", headers={"origin": FOREIGN})
    assert answer.headers["access-control-allow-origin"] == "*"
    with client.websocket_connect("/v1/images/stream", headers={"origin": FOREIGN}) as websocket:
        websocket.send_json({"type": "unknown"})
        assert websocket.receive_json()["type"] == "error"


def test_an_invalid_origin_option_is_refused() -> None:
    for origin in BAD:
        assert refused("serve", "--allow-origin", origin).startswith("--allow-origin: an origin must be")


def test_a_preflight_needs_no_key_and_one_of_another_page_or_method_is_refused(guarded_server: Server) -> None:
    url = f"{guarded_server.url}/v1/images/edits"
    response = httpx.options(url, headers={"origin": PAGE, **PREFLIGHT})
    assert response.status_code == 200
    assert "authorization" in response.headers["access-control-allow-headers"]
    response = httpx.options(url, headers={"origin": FOREIGN, **PREFLIGHT})
    assert_refused(response, 403, None, "origin_not_allowed")
    assert "access-control-allow-origin" not in response.headers
    response = httpx.options(url, headers={"origin": PAGE, "access-control-request-method": "DELETE"})
    assert_refused(response, 403, None, "preflight_refused")


@pytest.mark.parametrize("headers", FOREIGN_HEADERS, ids=str)
def test_foreign_pages_send_no_requests_that_do_more_than_read(
    client: httpx.Client, server: Server, headers: dict[str, str]
) -> None:
    assert_refused(client.post("/v1/images/edits", files=PICTURE, headers=headers), 403, None, "origin_not_allowed")
    assert_refused(client.post("/v1/images/generations", json={}, headers=headers), 403, None, "origin_not_allowed")
    for method in ("PUT", "DELETE", "PATCH", "TRACE"):
        assert client.request(method, "/v1/models", headers=headers).status_code == 403
    for method in ("GET", "HEAD"):
        assert client.request(method, "/v1/models", headers=headers).status_code == 200
    with pytest.raises(InvalidStatus, match="403"), connected(server.url, additional_headers=headers):
        pass


def test_the_servers_own_page_sends_requests(client: httpx.Client, server: Server) -> None:
    for origin in (server.url, server.url.replace("http:", "https:")):
        for more in ({}, {"sec-fetch-site": "same-origin"}):
            answer = client.post("/v1/images/generations", json={}, headers={"origin": origin, **more})
            assert answer.status_code == 200
    own = {"origin": server.url, "sec-fetch-site": "cross-site"}  # of the same name, but with another scheme
    assert client.post("/v1/images/generations", json={}, headers=own).status_code == 403


def test_an_allowed_page_sends_requests_across_sites(page: httpx.Client) -> None:
    headers = {"sec-fetch-site": "cross-site"}
    assert page.post("/v1/images/generations", json={}, headers=headers).status_code == 200
    headers["origin"] = FOREIGN
    assert_refused(page.post("/v1/images/generations", json={}, headers=headers), 403, None, "origin_not_allowed")
