"""Security headers of data, of the page and of errors."""

import re

import httpx
import pytest

DATA = ("/healthz", "/v1/models", "/nowhere", "/openapi.json")


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
def test_the_pages_load_scripts_and_styles_of_this_server_alone(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    policy = response.headers["content-security-policy"]
    assert "script-src 'self' 'wasm-unsafe-eval';" in policy
    assert "style-src 'self';" in policy
    assert "http" not in policy
    assert "unsafe-inline" not in policy
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", response.text)
    without_links = re.sub(r"<a\s[^>]*>", "", response.text)  # which load nothing until they are followed
    loaded = re.findall(r'(?:src|href)="([^"]+)"', without_links)
    assert loaded
    for one in loaded:
        assert one.startswith("./assets/"), one
        assert client.get(one.removeprefix(".")).status_code == 200
