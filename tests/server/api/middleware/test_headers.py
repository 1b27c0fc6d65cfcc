"""Headers of every answer: request ids, those of security, and HEAD in place of GET."""

import re
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from scanline.server.api.routes.page import BUILT
from tests.support.server.error_answers import refused_handshake
from tests.support.server.in_process_server import client_of_app
from tests.support.server.routes import GENERATIONS
from tests.support.server.running_server import PATIENCE
from tests.support.server.shared_servers import KEY, SECOND_KEY, bearer
from tests.support.server.websocket_client import STREAM, connected

ID = {"x-request-id": "mine"}
INVALID = ("", "x" * 129, "a b", "a,b", "<script>", 'say "hi"', "ünsafe".encode(), "a%1b[31m")
FOREIGN = {"origin": "https://foreign.example", "access-control-request-method": "POST"}
REFUSED = {  # label: method, address, what is sent, headers, status
    "not found": ("GET", "/nowhere", {}, {}, 404),
    "a wrong method": ("PUT", GENERATIONS, {}, {}, 405),
    "a wrong field": ("POST", GENERATIONS, {"json": {"n": 0}}, {}, 400),
    "a large body": ("POST", GENERATIONS, {"content": b" " * 200_000}, {}, 413),
    "no key": ("GET", "/v1/models", {}, {"authorization": "none"}, 401),
    "a foreign page": ("OPTIONS", GENERATIONS, {}, FOREIGN, 403),
}


def test_a_valid_id_is_returned_and_any_other_replaced_by_a_new_one(client):
    for name in ("7", "req_abc-123", "a:b/c.d=e+f@g", "x" * 128):
        assert (
            client.get("/healthz", headers={"x-request-id": name}).headers["x-request-id"] == name
        )
    wrong = [{}, *({"x-request-id": name} for name in INVALID)]
    ids = {client.get("/healthz", headers=headers).headers["x-request-id"] for headers in wrong}
    assert len(ids) == len(wrong)
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


@pytest.mark.parametrize("label", REFUSED)
def test_an_error_has_its_id(guarded_server, label):
    method, url, sent, headers, status = REFUSED[label]
    with guarded_server.client(headers=bearer(SECOND_KEY)) as client:
        response = client.request(method, url, headers={**ID, **headers}, **sent)
    assert (response.status_code, response.headers.get_list("x-request-id")) == (status, ["mine"])
    assert set(response.json()) == {"error"}


def test_a_stream_and_a_websocket_have_their_id_also_one_that_is_refused(guarded_server):
    url = guarded_server.url
    headers = {**bearer(SECOND_KEY), **ID}
    response = httpx.post(
        url + GENERATIONS, json={"stream": True}, headers=headers, timeout=PATIENCE
    )
    assert response.headers["x-request-id"] == "mine"
    with connected(url, additional_headers=headers) as websocket:
        assert websocket.socket.response.headers["x-request-id"] == "mine"
    for path, key, status in ((STREAM, "none", 401), ("/nowhere", SECOND_KEY, 404)):
        response = refused_handshake(url, path, additional_headers={**bearer(key), **ID})
        assert (response.status_code, response.headers["x-request-id"]) == (status, "mine")
        assert set(response.json()) == {"error"}


DATA = ("/healthz", "/v1/models", "/nowhere", "/openapi.json")


@pytest.mark.parametrize("path", [*DATA, "/docs", "/"])
def test_every_response_forbids_sniffing_and_framing(client, path):
    headers = client.get(path).headers
    required = {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
    }
    assert required.items() <= headers.items()
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    if path in DATA:
        assert (
            headers["content-security-policy"]
            == "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
        )
    names = [name for name, _ in headers.multi_items()]
    assert len(set(names)) == len(names)


def test_pages_may_be_embedded_by_the_sites_that_the_settings_name_and_data_by_none(grey_directory):
    sites = ("https://wiki.example", "http://localhost:3000")
    client = client_of_app(grey_directory, frame_ancestors=sites)
    for path in ("/", "/docs"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].endswith(f"; frame-ancestors {' '.join(sites)}")
        assert "x-frame-options" not in headers
    assert client.get("/v1/models").headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_own_files_that_are_cached_for_good(client, guarded_server, path):
    response = client.get(path)
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["cache-control"] == "no-cache"
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", response.text)
    # which load nothing until they are followed
    without_links = re.sub(r"<a\s[^>]*>", "", response.text)
    loaded = re.findall(r'(?:src|href)="([^"]+)"', without_links)
    assert {".js", ".css"} <= {Path(one).suffix for one in loaded}
    for one in loaded:
        caching = "public, max-age=31536000, immutable"
        if one in ("./manifest.webmanifest", "./icon.png"):
            caching = "no-cache"
        else:
            assert one.startswith("./assets/"), one
        file = client.get(one.removeprefix("."))
        found = (file.status_code, file.headers["cache-control"], file.content)
        assert found == (200, caching, (BUILT / one).read_bytes())
        assert httpx.get(f"{guarded_server.url}{one.removeprefix('.')}").status_code == 200, (
            "no key is needed"
        )
        for policy in (
            response.headers["content-security-policy"],
            file.headers["content-security-policy"],
        ):
            for part in (
                "default-src 'none'",
                "script-src 'self' 'wasm-unsafe-eval';",
                "style-src 'self';",
            ):
                assert part in policy
            assert not re.search(r"http|\*|'unsafe", policy)


@pytest.mark.parametrize("path", ["none.js", "../index.html", "%2e%2e/index.html", "../v1/models"])
def test_nothing_else_is_served_below_assets(server, guarded_server, path):
    """The path is sent as it is, which httpx would normalise."""
    for url in (server.url, guarded_server.url):
        connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
        connection.request("GET", f"/assets/{path}")
        assert connection.getresponse().status == 404
        connection.close()


PATHS = (
    "/",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/v1/models",
    "/v1/models/grey",
    "/nowhere",
)


def test_head_is_answered_as_get_without_a_body(client):
    for path in PATHS:
        head = client.head(path)
        get = client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers.keys() == get.headers.keys()
        assert {name for name in head.headers if head.headers[name] != get.headers[name]} <= {
            "date",
            "x-request-id",
        }
    assert client.head("/metrics").status_code == 200
    assert client.head(GENERATIONS).status_code == 405


def test_what_needs_no_key_is_made_once_and_not_sent_again(client):
    """Each coding has a tag of its own; a range is answered with the whole file."""
    script = re.search(r"/assets/[^\"]+\.js", client.get("/").text).group()
    icon = re.search(r"/assets/[^\"]+\.svg", client.get("/").text).group()
    for path in ("/", "/docs", "/openapi.json", script, icon):
        tags = set()
        for coding in ("gzip", "identity"):
            sent = {"accept-encoding": coding}
            whole = client.get(path, headers=sent)
            tags.add(tag := whole.headers["etag"])
            for known in (tag, f'"other", W/{tag}'):
                again = client.get(path, headers={**sent, "if-none-match": known})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
            for other in ('"other"', tag[:-2] + '"', tag.strip('"')[:-1], f"{tag[:-1]}-x"):
                assert client.get(path, headers={**sent, "if-none-match": other}).status_code == 200
            for wanted in ("bytes=0-9", "bytes=0-0,2-2", f"bytes={'0-0,' * 5000}5-"):
                assert client.get(path, headers={**sent, "range": wanted}).content == whole.content
        assert len(tags) == (1 if path == icon else 2)


def test_texts_are_compressed_where_the_client_accepts_it_and_images_are_not(client):
    asset = re.search(r"/assets/[^\"]+\.css", client.get("/").text).group()
    for path in ("/", "/openapi.json", asset):
        compressed = client.get(path)
        plain = client.get(path, headers={"accept-encoding": "identity"})
        assert compressed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert (
            compressed.headers["vary"].lower() == plain.headers["vary"].lower() == "accept-encoding"
        )
        assert compressed.content == plain.content
    head = client.head(asset)
    assert head.headers["content-encoding"] == "gzip"
    assert 0 < int(head.headers["content-length"]) < len(plain.content)
    assert "content-encoding" not in client.post(GENERATIONS, json={"n": 100}).headers


def test_readiness_names_models_only_to_clients_with_a_key(client, guarded_server):
    assert client.get("/readyz").json() == {"status": "ready", "models": {"grey": "ready"}}
    url = f"{guarded_server.url}/readyz"
    ready = {"status": "ready"}
    assert httpx.get(url).json() == ready
    assert httpx.get(url, headers=bearer("wrong")).json() == ready
    ready["models"] = {"grey": "ready"}
    assert httpx.get(url, headers=bearer(KEY)).json() == ready


@pytest.mark.parametrize(
    ("accepts", "coding"),
    [
        ("gzip", "gzip"),
        ("br, GZip;q=0.1", "gzip"),
        ("*", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.0, *", None),
        ("*;q=0", None),
        ("gzipped", None),
    ],
)
@pytest.mark.parametrize("path", ["/", "/openapi.json"])
def test_a_text_is_compressed_where_the_client_accepts_it(client, path, accepts, coding):
    response = client.get(path, headers={"accept-encoding": accepts})
    assert response.headers.get("content-encoding") == coding


@pytest.mark.parametrize(("accepts", "coding"), [("gzip", "gzip"), ("gzip;q=0", None)])
def test_metrics_are_compressed_where_the_client_accepts_it(client, accepts, coding):
    response = client.get("/metrics", headers={"accept-encoding": accepts})
    assert response.headers.get("content-encoding") == coding
