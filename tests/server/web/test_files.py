"""The files of the page: served without an API key, with a content security policy and cache headers."""

import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from scanline.server.api.routes.page import BUILT
from tests.support.server.running_server import PATIENCE, Server


@pytest.fixture(scope="module")
def page(page_client: httpx.Client) -> httpx.Response:
    return page_client.get("/")


@pytest.fixture(scope="module")
def page_client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        yield client


def status_of(server: Server, path: str) -> int:
    """The status of a GET whose path is sent unchanged; httpx would normalise it."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def files_of(page: httpx.Response) -> list[str]:
    """The paths of the files that index.html refers to."""
    return re.findall(r'(?:src|href)="\./([^"]+)"', page.text)


def test_the_page_is_revalidated_and_its_assets_are_cached_for_good(
    page: httpx.Response, page_client: httpx.Client
) -> None:
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    assert "<h1>Scanline</h1>" in page.text
    named = files_of(page)
    assert {Path(name).suffix for name in named} == {".js", ".css", ".svg"}
    for name in named:
        answer = page_client.get(f"/{name}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.content == (BUILT / name).read_bytes()


def test_nothing_is_loaded_from_other_hosts(page: httpx.Response, page_client: httpx.Client) -> None:
    policies = [page.headers["content-security-policy"]]
    policies += [page_client.get(f"/{name}").headers["content-security-policy"] for name in files_of(page)]
    for policy in policies:
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        for source in ("unsafe-inline", "'unsafe-eval'", "http:", "https:", "*"):
            assert source not in policy
    assert "<style" not in page.text
    assert re.findall(r"<script[^>]*>(?!</script>)", page.text) == []
    assert re.findall(r"<(?!a )[^>]*://", page.text) == []  # links may name other hosts


@pytest.mark.parametrize("path", ["/assets/none.js", "/assets/../index.html", "/assets/%2e%2e/index.html", "/index"])
def test_other_files_are_not_served(server: Server, path: str) -> None:
    assert status_of(server, path) == 404


def test_the_page_needs_no_api_key_but_the_api_does(locked: Server) -> None:
    with httpx.Client(base_url=locked.url, timeout=PATIENCE) as client:
        named = files_of(client.get("/"))
        assert named
        assert all(client.get(f"/{name}").status_code == 200 for name in named)
        assert status_of(locked, "/v1/models") == 401
        assert status_of(locked, "/assets/../v1/models") == 404
