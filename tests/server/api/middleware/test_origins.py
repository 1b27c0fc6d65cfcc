"""Allowed origins of web pages: the server's own, and those of --allow-origin."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from websockets.exceptions import InvalidStatus

from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.commands import refused
from tests.support.server.error_answers import answer_of, assert_refused
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.shared_servers import KEY, PAGE, SECOND_PAGE, bearer
from tests.support.server.websocket_client import connected

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
