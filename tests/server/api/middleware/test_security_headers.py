"""Security headers of data, of the page and of errors."""

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


@pytest.mark.parametrize("path", DATA)
def test_data_may_load_nothing(client: httpx.Client, path: str) -> None:
    policy = client.get(path).headers["content-security-policy"]
    assert policy == "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"


def test_the_api_documentation_may_load_its_scripts(client: httpx.Client) -> None:
    response = client.get("/docs")
    assert "https://cdn.jsdelivr.net" in response.text
    assert "script-src https://cdn.jsdelivr.net" in response.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/healthz", "/"])
def test_each_header_is_there_once(client: httpx.Client, path: str) -> None:
    names = [name for name, _ in client.get(path).headers.multi_items()]
    assert len(set(names)) == len(names)
