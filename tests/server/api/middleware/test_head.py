"""HEAD on the routes that answer GET; no redirects; what the probes tell."""

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
    asset = next(part for part in client.get("/").text.split('"') if part.startswith("./assets/")).removeprefix(".")
    head = client.head(asset)
    assert int(head.headers["content-length"]) == len(client.get(asset).content) > 0
    assert client.head("/v1/images/generations").status_code == 405


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
