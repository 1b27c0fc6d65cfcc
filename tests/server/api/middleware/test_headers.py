"""Headers of every answer: request ids, those of security, and HEAD in place of GET."""

import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from scanline.server.api.routes.page import BUILT
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.shared_servers import KEY, SECOND_KEY, bearer
from tests.support.server.websocket_client import connected

GENERATED = re.compile(r"[0-9a-f]{32}")
URL = "/v1/images/generations"
INVALID = ("", "x" * 129, "a b", "a,b", "<script>", 'say "hi"', "ünsafe".encode(), "a\x1b[31m".replace("\x1b", "%1b"))
FOREIGN = {"origin": "https://foreign.example", "access-control-request-method": "POST"}
REFUSED = {  # label: method, address, what is sent, status
    "not found": ("GET", "/nowhere", {}, 404),
    "a wrong method": ("PUT", URL, {}, 405),
    "a wrong field": ("POST", URL, {"json": {"n": 0}}, 400),
    "a large body": ("POST", URL, {"content": b" " * 200_000}, 413),
    "no key": ("GET", "/v1/models", {"headers": {"authorization": "none"}}, 401),
    "a foreign page": ("OPTIONS", URL, {"headers": FOREIGN}, 403),
}


@pytest.fixture
def second(guarded_server: Server) -> Iterator[httpx.Client]:
    headers = bearer(SECOND_KEY)
    with httpx.Client(base_url=guarded_server.url, headers=headers, timeout=PATIENCE) as second:
        yield second


def test_a_valid_id_is_returned_and_any_other_replaced_by_a_new_one(second: httpx.Client) -> None:
    for name in ("7", "req_abc-123", "a:b/c.d=e+f@g", "x" * 128):
        assert second.get("/healthz", headers={"x-request-id": name}).headers["x-request-id"] == name
    wrong = [{}, *({"x-request-id": name} for name in INVALID)]
    ids = [second.get("/healthz", headers=headers).headers["x-request-id"] for headers in wrong]
    assert all(GENERATED.fullmatch(one) for one in ids)
    assert len(set(ids)) == len(wrong)


@pytest.mark.parametrize("label", REFUSED)
def test_an_error_has_its_id(second: httpx.Client, label: str) -> None:
    method, url, sent, status = REFUSED[label]
    headers = {"x-request-id": "mine", **sent.get("headers", {})}
    response = second.request(method, url, **{**sent, "headers": headers})
    assert (response.status_code, response.headers.get_list("x-request-id")) == (status, ["mine"])
    assert set(response.json()) == {"error"}


def test_a_stream_and_a_websocket_have_their_id(second: httpx.Client, guarded_server: Server) -> None:
    response = second.post(URL, json={"stream": True}, headers={"x-request-id": "mine"})
    assert response.headers["x-request-id"] == "mine"
    headers = {**bearer(SECOND_KEY), "x-request-id": "mine"}
    with connected(guarded_server.url, additional_headers=headers) as websocket:
        assert websocket.socket.response.headers["x-request-id"] == "mine"


@pytest.mark.parametrize(("path", "key", "status"), [("/v1/images/stream", "none", 401), ("/nowhere", SECOND_KEY, 404)])
def test_a_refused_websocket_has_its_id(guarded_server: Server, path: str, key: str, status: int) -> None:
    headers = {**bearer(key), "x-request-id": "mine"}
    with pytest.raises(InvalidStatus) as refused, connected(guarded_server.url, path, additional_headers=headers):
        pass
    response = refused.value.response
    assert (response.status_code, response.headers["x-request-id"]) == (status, "mine")
    assert b'"error"' in bytes(response.body)


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
