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
    if path in DATA:
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
    names = [name for name, _ in headers.multi_items()]
    assert len(set(names)) == len(names)


def test_the_api_documentation_may_load_its_scripts(client: httpx.Client) -> None:
    response = client.get("/docs")
    assert "https://cdn.jsdelivr.net" in response.text
    assert "script-src https://cdn.jsdelivr.net" in response.headers["content-security-policy"]
