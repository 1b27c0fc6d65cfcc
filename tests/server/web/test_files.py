"""The page's files: open to all, guarded, kept for as long as they stay what they are."""

import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from scanline.server.api.routes.page import BUILT
from tests.support.running_server import PATIENCE, Server


@pytest.fixture(scope="module")
def page(client_of_the_page: httpx.Client) -> httpx.Response:
    return client_of_the_page.get("/")


@pytest.fixture(scope="module")
def client_of_the_page(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        yield client


def status_of(server: Server, path: str) -> int:
    """Of a GET whose path goes out as it is: httpx would tidy it."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def named_in(page: httpx.Response) -> list[str]:
    """Addresses of the files that the page names."""
    return re.findall(r'(?:src|href)="\./([^"]+)"', page.text)


def test_the_page_is_asked_for_again_each_time(page: httpx.Response) -> None:
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    assert "<h1>Scanline</h1>" in page.text


def test_its_files_are_kept_for_good(page: httpx.Response, client_of_the_page: httpx.Client) -> None:
    named = named_in(page)
    assert {Path(name).suffix for name in named} == {".js", ".css", ".svg"}
    for name in named:
        answer = client_of_the_page.get(f"/{name}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.content == (BUILT / name).read_bytes()


def test_nothing_comes_from_elsewhere(page: httpx.Response, client_of_the_page: httpx.Client) -> None:
    policies = [page.headers["content-security-policy"]]
    policies += [client_of_the_page.get(f"/{name}").headers["content-security-policy"] for name in named_in(page)]
    for policy in policies:
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        for hole in ("unsafe-inline", "'unsafe-eval'", "http:", "https:", "*"):
            assert hole not in policy
    assert "<style" not in page.text
    assert re.findall(r"<script[^>]*>(?!</script>)", page.text) == []
    assert "://" not in page.text


@pytest.mark.parametrize("path", ["/assets/none.js", "/assets/../index.html", "/assets/%2e%2e/index.html", "/index"])
def test_other_files_are_not_there(server: Server, path: str) -> None:
    assert status_of(server, path) == 404


def test_the_page_is_open_and_what_lies_behind_it_is_not(locked: Server) -> None:
    with httpx.Client(base_url=locked.url, timeout=PATIENCE) as client:
        named = named_in(client.get("/"))
        assert named
        assert all(client.get(f"/{name}").status_code == 200 for name in named)
        assert status_of(locked, "/v1/models") == 401
        assert status_of(locked, "/assets/../v1/models") == 404
