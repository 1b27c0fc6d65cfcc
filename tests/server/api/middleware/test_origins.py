"""Host names and origins of browsers: those that are allowed, and all others."""

import asyncio

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.server.api.middleware.hosts import LOOPBACK_NAMES, HostMiddleware, served_hosts
from scanline.server.api.middleware.origins import OriginMiddleware
from tests.support.server.error_answers import assert_refused, refused_handshake
from tests.support.server.frames import WEBSOCKET_HEAD
from tests.support.server.in_process_server import client_of_app
from tests.support.server.routes import EDITS, GENERATIONS
from tests.support.server.running_server import client_of, serve
from tests.support.server.shared_servers import KEY, PAGE, SECOND_PAGE, bearer
from tests.support.server.sockets import answer_to
from tests.support.server.websocket_client import STREAM, connected

REBOUND = "rebound.evil.example:8000"
OWN = (
    "localhost",
    "localhost.",
    "localhost.:8000",
    "LOCALHOST:8000",
    "127.0.0.1",
    "127.0.0.1:1",
    "[::1]",
    "[::1]:8000",
    "localhost:",
)
FOREIGN_HOSTS = (
    REBOUND,
    "localhost@evil.example",
    "127.0.0.1.evil.example",
    "192.168.0.1",
    "::1",
    "",
)
WRONG_HOST = (421, None, "host_not_allowed")
WRONG_ORIGIN = (403, None, "origin_not_allowed")


def test_loopback_answers_to_its_names_and_with_keys_to_any(client, guarded_server):
    for host in OWN:
        assert client.get("/v1/models", headers={"host": host}).status_code == 200
    headers = {**bearer(KEY), "host": "any.example"}
    assert httpx.get(f"{guarded_server.url}/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_page_whose_name_was_bound_to_loopback_gets_nothing(client, server, host):
    headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    for path in ("/", "/v1/models", "/docs", "/openapi.json", "/nowhere"):
        assert_refused(client.get(path, headers=headers), *WRONG_HOST)
    assert_refused(client.post(GENERATIONS, json={}, headers=headers), *WRONG_HOST)
    sent = (
        WEBSOCKET_HEAD.replace(b"127.0.0.1", host.encode())
        + b"origin: http://%s\r\n\r\n" % host.encode()
    )
    assert_refused(answer_to(server, sent), *WRONG_HOST)


def test_probes_may_use_an_address_but_no_foreign_name(client):
    for path in ("/healthz", "/readyz", "/metrics"):
        for host in ("10.1.2.3:8000", "[fd00::2]:8000"):
            assert client.get(path, headers={"host": host}).status_code == 200
        assert_refused(client.get(path, headers={"host": REBOUND}), *WRONG_HOST)


def test_a_request_without_the_header_is_served_and_one_with_a_second_name_is_not(server):
    for headers, status in ((b"", 200), (b"host: localhost\r\nhost: evil.example\r\n", 400)):
        assert (
            answer_to(server, b"GET /v1/models HTTP/1.0\r\n" + headers + b"\r\n").status_code
            == status
        )


def test_a_public_server_answers_only_to_the_names_it_was_given(grey_directory):
    """--allow-origin is given as well, so that CORS is there."""
    options = ("--host", "0.0.0.0", "--allow-host", "Images.example", "--allow-origin", PAGE)
    with (
        serve(grey_directory, *options) as server,
        httpx.Client(base_url=server.url.replace("0.0.0.0", "127.0.0.1")) as client,
    ):
        for host in ("images.example", "IMAGES.example:443"):
            own = {"host": host, "origin": f"https://{host}"}
            assert client.post(GENERATIONS, json={}, headers=own).status_code == 200
        for host in ("localhost", "127.0.0.1", "other.example"):
            assert client.get("/v1/models", headers={"host": host}).status_code == 421
        assert client.get("/readyz", headers={"host": "127.0.0.1"}).status_code == 200
        preflight = {
            "host": "evil.example",
            "origin": PAGE,
            "access-control-request-method": "POST",
        }
        assert client.options("/v1/models", headers=preflight).status_code == 421


def test_served_names_follow_from_address_keys_and_options():
    assert served_hosts("127.0.0.1", (), is_local=True, needs_key=False) == LOOPBACK_NAMES
    more = served_hosts("::1", ("a.example", "fd00::1"), is_local=True, needs_key=False)
    assert more == LOOPBACK_NAMES | {"a.example", "[fd00::1]"}
    assert served_hosts("127.0.0.1", (), is_local=True, needs_key=True) is None
    assert served_hosts("0.0.0.0", (), is_local=False, needs_key=False) is None
    assert served_hosts("0.0.0.0", ("a.example",), is_local=False, needs_key=True) == {"a.example"}
    assert served_hosts("127.0.0.1", ("*",), is_local=True, needs_key=False) is None


# What browsers and others may send: near misses of our own names among them.
NAMES = st.sampled_from(
    ["localhost", "127.0.0.1", "[::1]", "evil.example", "localhost.evil.example", "", "[", "a b"]
)
PORTS = st.sampled_from(["", ":", ":8000", ":80", ":8000:1", "@evil.example"])
HOSTS = st.builds(str.__add__, NAMES, PORTS) | st.text(
    st.characters(max_codepoint=255), max_size=30
)
SCHEMES = st.sampled_from(["http://", "https://", "HTTP://", "", "null"])
ORIGINS = st.builds(str.__add__, SCHEMES, HOSTS) | st.just("null")
SITES = st.sampled_from(["same-origin", "none", "same-site", "cross-site", "", "x"])
VALUES = {"host": HOSTS, "origin": ORIGINS, "sec-fetch-site": SITES}
HEADERS = st.lists(
    st.one_of(*(st.tuples(st.just(name), values) for name, values in VALUES.items())), max_size=5
)


def reached(scope):
    """Whether a request gets through both checks; each refusal must be one of theirs."""
    passed = []
    sent = []

    async def app(*_):
        passed.append(True)

    async def send(message):
        sent.append(message)

    checks = HostMiddleware(OriginMiddleware(app, ()), LOOPBACK_NAMES)
    asyncio.run(checks(scope, send, send))
    assert passed or sent[0]["status"] in (403, 421)
    return bool(passed)


@given(
    st.sampled_from(["http", "websocket"]), st.sampled_from(["GET", "POST", "DELETE", "X"]), HEADERS
)
def test_no_header_lets_a_foreign_page_through(kind, method, sent):
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in sent]
    scope = {
        "type": kind,
        "path": "/v1/models",
        "headers": encoded,
        "extensions": {},
    }
    scope |= (
        {"method": method} if kind == "http" else {"extensions": {"websocket.http.response": {}}}
    )
    if not reached(scope):
        return
    values = {key: [value.lower() for name, value in sent if name == key] for key in VALUES}
    for host in values["host"]:
        assert host.rpartition(":")[0] in LOOPBACK_NAMES or host in LOOPBACK_NAMES
    if kind == "http" and method == "GET":
        return
    assert not {*values["sec-fetch-site"]} - {"same-origin", "none"}
    for origin in values["origin"]:
        assert [origin.partition("://")[2]] == values["host"]


FOREIGN = "https://page.example.evil"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}
FOREIGN_HEADERS = [  # what a browser sends for a page that is not ours
    {"origin": PAGE, "sec-fetch-site": "cross-site"},
    {"origin": "http://localhost:1", "sec-fetch-site": "same-site"},
    *({"origin": origin} for origin in (PAGE, "null", "")),
    *({"sec-fetch-site": site} for site in ("cross-site", "same-site", "new-value")),
]


# a script of an allowed page
page = client_of("guarded_server", headers={"origin": PAGE, **bearer(KEY)})


def test_own_and_allowed_pages_open_a_websocket_and_foreign_ones_not(server, guarded_server):
    own = (None, server.url, server.url.replace("http:", "https:"))
    others = (PAGE, "null", "", "file://", server.url.rpartition(":")[0])
    for one, opened, closed in (
        (server, own, others),
        (guarded_server, (PAGE, SECOND_PAGE, None), (FOREIGN,)),
    ):
        for origin in opened:
            with connected(one.url, origin=origin, additional_headers=bearer(KEY)):
                pass
        for origin in closed:
            assert_refused(
                refused_handshake(one.url, origin=origin, additional_headers=bearer(KEY)),
                *WRONG_ORIGIN,
            )


def test_without_allowed_origins_there_are_no_cors_headers(client):
    response = client.get("/v1/models", headers={"origin": PAGE})
    assert not [name for name in response.headers if name.startswith("access-control-")]
    assert client.options(GENERATIONS, headers={"origin": PAGE, **PREFLIGHT}).status_code == 405


def test_only_allowed_pages_may_read_answers_and_refusals(page):
    assert page.get("/v1/models").headers["access-control-allow-origin"] == PAGE
    response = page.get("/v1/models", headers={"authorization": "Bearer wrong"})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (401, PAGE)
    exposed = page.post(GENERATIONS, json={}).headers["access-control-expose-headers"].split(", ")
    assert {"x-request-id", "x-scanline-seed"} <= set(exposed)
    assert (
        "access-control-allow-origin"
        not in page.get("/v1/models", headers={"origin": FOREIGN}).headers
    )


def test_a_star_allows_all_pages(grey_directory):
    client = client_of_app(grey_directory, allow_origins=("*",))
    assert (
        client.get("/v1/models", headers={"origin": FOREIGN}).headers["access-control-allow-origin"]
        == "*"
    )
    with client.websocket_connect(STREAM, headers={"origin": FOREIGN}) as websocket:
        websocket.send_json({"type": "unknown"})
        assert websocket.receive_json()["type"] == "error"


def test_a_preflight_needs_no_key_and_one_of_another_page_or_method_is_refused(guarded_server):
    url = guarded_server.url + EDITS
    response = httpx.options(url, headers={"origin": PAGE, **PREFLIGHT})
    assert response.status_code == 200
    assert "authorization" in response.headers["access-control-allow-headers"]
    for network in ("private-network", "local-network"):
        asked = {**PREFLIGHT, f"access-control-request-{network}": "true"}
        response = httpx.options(url, headers={"origin": PAGE, **asked})
        assert response.headers[f"access-control-allow-{network}"] == "true"
        response = httpx.options(url, headers={"origin": FOREIGN, **asked})
        assert_refused(response, *WRONG_ORIGIN)
        assert not {f"access-control-allow-{network}", "access-control-allow-origin"} & {
            *response.headers
        }
    response = httpx.options(
        url, headers={"origin": PAGE, "access-control-request-method": "DELETE"}
    )
    assert_refused(response, 403, None, "preflight_refused")


def test_own_pages_send_requests_and_allowed_ones_also_across_sites(client, page):
    both = (own := str(client.base_url).rstrip("/"), own.replace("http:", "https:"))
    cross, same = ({"sec-fetch-site": site} for site in ("cross-site", "same-origin"))
    for sender, headers, status in (
        *((client, {"origin": origin, **more}, 200) for origin in both for more in ({}, same)),
        (client, {"origin": own, **cross}, 403),  # of the same name, but with another scheme
        *((client, headers, 403) for headers in FOREIGN_HEADERS),
        (page, cross, 200),
        (page, {"origin": FOREIGN, **cross}, 403),
    ):
        assert sender.post(GENERATIONS, json={}, headers=headers).status_code == status
        assert sender.head("/v1/models", headers=headers).status_code == 200, "all may read"
