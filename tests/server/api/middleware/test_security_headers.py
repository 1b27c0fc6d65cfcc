"""Security and cache headers of data, of the page and its files, and of errors."""

import re
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from scanline.server.api.routes.page import BUILT
from tests.support.server.running_server import PATIENCE, Server

DATA = ("/healthz", "/v1/models", "/nowhere", "/openapi.json")
IMMUTABLE = "public, max-age=31536000, immutable"


@pytest.mark.parametrize("path", [*DATA, "/docs", "/"])
def test_every_response_forbids_sniffing_and_framing(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    if path in DATA:
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
    names = [name for name, _ in headers.multi_items()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_pages_load_files_of_this_server_alone_which_are_cached_for_good(
    client: httpx.Client, guarded_server: Server, path: str
) -> None:
    response = client.get(path)
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["cache-control"] == "no-cache"
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", response.text)
    without_links = re.sub(r"<a\s[^>]*>", "", response.text)  # which load nothing until they are followed
    loaded = re.findall(r'(?:src|href)="([^"]+)"', without_links)
    assert {".js", ".css"} <= {Path(one).suffix for one in loaded}
    for one in loaded:
        assert one.startswith("./assets/"), one
        file = client.get(one.removeprefix("."))
        assert (file.status_code, file.headers["cache-control"]) == (200, IMMUTABLE)
        assert file.content == (BUILT / one).read_bytes()
        assert httpx.get(f"{guarded_server.url}{one.removeprefix('.')}").status_code == 200, "no key is needed"
        for policy in (response.headers["content-security-policy"], file.headers["content-security-policy"]):
            assert "default-src 'none'" in policy
            assert "script-src 'self' 'wasm-unsafe-eval';" in policy
            assert "style-src 'self';" in policy
            assert not re.search(r"http|\*|'unsafe", policy)


@pytest.mark.parametrize("path", ["none.js", "../index.html", "%2e%2e/index.html", "../v1/models"])
def test_nothing_else_is_served_below_assets(server: Server, guarded_server: Server, path: str) -> None:
    """The path is sent as it is, which httpx would normalise."""
    for url in (server.url, guarded_server.url):
        connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
        connection.request("GET", f"/assets/{path}")
        assert connection.getresponse().status == 404
        connection.close()
