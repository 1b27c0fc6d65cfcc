"""x-request-id is on every response: the id of the client where it is valid, or a generated one."""

import re
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.shared_servers import SECOND_KEY, bearer
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
def client(guarded_server: Server) -> Iterator[httpx.Client]:
    headers = bearer(SECOND_KEY)
    with httpx.Client(base_url=guarded_server.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def test_a_valid_id_is_returned_and_any_other_replaced_by_a_new_one(client: httpx.Client) -> None:
    for name in ("7", "req_abc-123", "a:b/c.d=e+f@g", "x" * 128):
        assert client.get("/healthz", headers={"x-request-id": name}).headers["x-request-id"] == name
    wrong = [{}, *({"x-request-id": name} for name in INVALID)]
    ids = [client.get("/healthz", headers=headers).headers["x-request-id"] for headers in wrong]
    assert all(GENERATED.fullmatch(one) for one in ids)
    assert len(set(ids)) == len(wrong)


@pytest.mark.parametrize("label", REFUSED)
def test_an_error_has_its_id(client: httpx.Client, label: str) -> None:
    method, url, sent, status = REFUSED[label]
    headers = {"x-request-id": "mine", **sent.get("headers", {})}
    response = client.request(method, url, **{**sent, "headers": headers})
    assert (response.status_code, response.headers.get_list("x-request-id")) == (status, ["mine"])
    assert set(response.json()) == {"error"}


def test_a_stream_and_a_websocket_have_their_id(client: httpx.Client, guarded_server: Server) -> None:
    response = client.post(URL, json={"stream": True}, headers={"x-request-id": "mine"})
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
