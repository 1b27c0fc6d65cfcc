"""HEAD on the routes that answer GET; compressed texts; no redirects; what the probes tell."""

import re

import httpx

from tests.support.server.running_server import Server
from tests.support.server.shared_servers import KEY, bearer

PATHS = ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/v1/models", "/v1/models/grey", "/nowhere")
CHANGING = {"date", "x-request-id"}


def test_head_is_answered_as_get_without_a_body(client: httpx.Client) -> None:
    for path in PATHS:
        head, get = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers.keys() == get.headers.keys()
        assert {name for name in head.headers if head.headers[name] != get.headers[name]} <= CHANGING


def test_head_of_metrics_assets_and_posts(client: httpx.Client) -> None:
    assert client.head("/metrics").status_code == 200
    asset = re.search(r"/assets/[^\"]+\.css", client.get("/").text).group()  # type: ignore[union-attr]
    head = client.head(asset)
    assert head.headers["content-encoding"] == "gzip"
    assert 0 < int(head.headers["content-length"]) < len(client.get(asset).content)
    assert client.head("/v1/images/generations").status_code == 405


def test_texts_are_compressed_where_the_client_accepts_it_and_images_are_not(client: httpx.Client) -> None:
    asset = re.search(r"/assets/[^\"]+\.css", client.get("/").text).group()  # type: ignore[union-attr]
    for path in ("/", "/openapi.json", asset):
        compressed, plain = client.get(path), client.get(path, headers={"accept-encoding": "identity"})
        assert compressed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert compressed.headers["vary"].lower() == plain.headers["vary"].lower() == "accept-encoding"
        assert compressed.content == plain.content
    assert "content-encoding" not in client.post("/v1/images/generations", json={"n": 100}).headers


def test_a_slash_too_many_or_too_few_is_not_redirected(client: httpx.Client) -> None:
    for path in ("/docs/", "/healthz/", "/v1/models/", "/v1/images/generations/", "/assets", "/metrics/"):
        answer = client.get(path)
        assert answer.status_code in (404, 405), path
        assert "location" not in answer.headers


def test_readiness_names_models_only_to_clients_with_a_key(client: httpx.Client, guarded_server: Server) -> None:
    assert client.get("/readyz").json() == {"status": "ready", "models": {"grey": "ready"}}
    url = f"{guarded_server.url}/readyz"
    assert httpx.get(url).json() == httpx.get(url, headers=bearer("wrong")).json() == {"status": "ready"}
    assert httpx.get(url, headers=bearer(KEY)).json() == {"status": "ready", "models": {"grey": "ready"}}
