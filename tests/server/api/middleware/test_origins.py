"""Which web pages may use a server: its own, and those that --allow-origin names."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.commands import scanline
from tests.support.error_answers import answer_of, assert_refused
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.websocket_client import connected

PAGE, SECOND, FOREIGN = "https://page.example", "http://localhost:3000", "https://page.example.evil"
KEY = "sk-seven"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
BAD = (
    "",
    "page.example",
    "https://",
    "https://page.example/",
    "https://Page.example",
    "https://page.example, *",
    "null",
)


@pytest.fixture(scope="module")
def allowing(grey_directory: Path) -> Iterator[Server]:
    options = ("--allow-origin", PAGE, "--allow-origin", SECOND, "--api-key", KEY)
    with serve(grey_directory, "--slots", "8", *options) as server:
        yield server


@pytest.fixture
def page(allowing: Server) -> Iterator[httpx.Client]:
    """A script of an allowed page."""
    headers = {"origin": PAGE, "authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=allowing.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def opens(server: Server, origin: str | None) -> bool:
    """Whether a websocket of that page opens; fails where it is refused for another reason."""
    try:
        with connected(server.url, origin=origin, additional_headers={"authorization": f"Bearer {KEY}"}):
            return True
    except InvalidStatus as refused:
        assert_refused(answer_of(refused), 403, None, "origin_not_allowed")
        return False


@pytest.mark.parametrize("origin", [PAGE, "null", "", "file://"])
def test_foreign_pages_open_no_websocket(server: Server, origin: str) -> None:
    assert not opens(server, origin)


def test_a_program_without_origin_opens_one(server: Server) -> None:
    assert opens(server, None)


def test_the_servers_own_page_opens_one(server: Server) -> None:
    assert opens(server, server.url)


def test_the_servers_own_page_opens_one_behind_tls(server: Server) -> None:
    assert opens(server, server.url.replace("http:", "https:"))


def test_another_port_is_another_page(server: Server) -> None:
    assert not opens(server, server.url.rpartition(":")[0])


def test_without_allowed_origins_no_page_is_told_anything(client: httpx.Client) -> None:
    response = client.get("/v1/models", headers={"origin": PAGE})
    assert not [name for name in response.headers if name.startswith("access-control-")]


def test_without_allowed_origins_there_is_no_preflight(client: httpx.Client) -> None:
    response = client.options("/v1/images/generations", headers={"origin": PAGE, **PREFLIGHT})
    assert response.status_code == 405


@pytest.mark.parametrize("origin", [PAGE, SECOND, None])
def test_allowed_pages_open_a_websocket(allowing: Server, origin: str | None) -> None:
    assert opens(allowing, origin)


def test_others_still_open_none(allowing: Server) -> None:
    assert not opens(allowing, FOREIGN)


def test_an_allowed_page_may_read_answers(page: httpx.Client) -> None:
    assert page.get("/v1/models").headers["access-control-allow-origin"] == PAGE


def test_an_allowed_page_may_read_refusals_too(page: httpx.Client) -> None:
    response = page.get("/v1/models", headers={"authorization": "Bearer wrong"})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (401, PAGE)


def test_an_allowed_page_may_read_the_seed(page: httpx.Client) -> None:
    response = page.post("/v1/images/generations", json={})
    exposed = response.headers["access-control-expose-headers"].split(", ")
    assert {"x-request-id", "x-scanline-seed"} <= set(exposed)


def test_another_page_may_not_read(page: httpx.Client) -> None:
    assert "access-control-allow-origin" not in page.get("/v1/models", headers={"origin": FOREIGN}).headers


def test_a_preflight_needs_no_key(allowing: Server) -> None:
    response = httpx.options(f"{allowing.url}/v1/images/edits", headers={"origin": PAGE, **PREFLIGHT})
    assert response.status_code == 200
    assert "authorization" in response.headers["access-control-allow-headers"]


def test_an_origin_is_no_key(allowing: Server) -> None:
    assert httpx.get(f"{allowing.url}/v1/models", headers={"origin": PAGE}).status_code == 401


def test_a_star_allows_all_pages(grey_directory: Path) -> None:
    with serve(grey_directory, "--allow-origin", "*") as server:
        answer = httpx.get(f"{server.url}/v1/models", headers={"origin": FOREIGN})
        assert answer.headers["access-control-allow-origin"] == "*"
        assert opens(server, FOREIGN)


@pytest.mark.parametrize("origin", BAD)
def test_an_origin_that_cannot_be_is_refused(origin: str) -> None:
    ran = scanline("serve", "--allow-origin", origin)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("scanline: --allow-origin: an origin must be")


def test_a_preflight_of_another_page_is_refused(allowing: Server) -> None:
    response = httpx.options(f"{allowing.url}/v1/images/edits", headers={"origin": FOREIGN, **PREFLIGHT})
    assert_refused(response, 403, None, "origin_not_allowed")
    assert "access-control-allow-origin" not in response.headers


def test_a_preflight_for_another_method_is_refused(allowing: Server) -> None:
    asked = {"origin": PAGE, "access-control-request-method": "DELETE"}
    assert_refused(httpx.options(f"{allowing.url}/v1/images/edits", headers=asked), 403, None, "preflight_refused")
