"""API keys: which requests need one, and the file of named keys,
which is read again when it changes.
"""

import json
import logging
from base64 import urlsafe_b64encode

import httpx
import pytest
from pydantic import SecretStr
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from scanline.server.api.base.api_keys import MAX_KEYS, ApiKeys, read_keys
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support.commands import refused
from tests.support.server.error_answers import assert_refused, refused_handshake
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.running_server import client_of, serve
from tests.support.server.shared_servers import KEY, SECOND_KEY, bearer
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

# and FILES, and nothing else
OPEN = (
    *("/healthz", "/readyz", "/openapi.json"),
    *("/", "/docs", "/manifest.webmanifest", "/icon.png"),
)
FILES = "/assets/{name:path}"  # of the pages
WRONG = f"{KEY}x"
WRONG_HEADERS = (
    f"Bearer {WRONG}",
    f"Bearer {KEY[:-1]}",
    f"Bearer {KEY},{SECOND_KEY}",
    "Bearer",
    KEY,
    f"Basic {KEY}",
)
SPELLING = "printable ASCII without spaces and commas"
BAD = {
    "": "must not be empty",
    **dict.fromkeys(("sk seven", "sk,seven", "sk-seven\n", "sk-sieben-ß"), SPELLING),
}


def subprotocols(key, *others):
    return [
        Subprotocol(one)
        for one in (*others, f"key.{urlsafe_b64encode(key.encode()).decode().rstrip('=')}")
    ]


def routes(of):
    for route in of.routes:
        # newer FastAPI versions keep a router as one route
        if part := getattr(route, "original_router", None):
            yield from routes(part)
        else:
            yield route


keyless = client_of("guarded_server")


def test_every_route_needs_a_key(keyless, guarded_server, grey_directory):
    settings = Settings(models=(str(grey_directory),), api_keys=(SecretStr(KEY),))
    closed = [
        route
        for route in routes(build(settings, served_models(settings)))
        if route.path not in (*OPEN, "/assets/{name:path}")
    ]
    assert {"/metrics", "/v1/models", "/v1/images/generations", "/v1/images/stream"} <= {
        one.path for one in closed
    }
    for route in closed:
        path = route.path.replace("{", "").replace("}", "")
        for method in getattr(route, "methods", None) or ("GET",):
            assert keyless.request(method, path).status_code == 401, f"{method} {path} is open"
        assert refused_handshake(guarded_server.url, path).status_code == 401


def test_probes_and_the_page_are_open_and_near_misses_are_not(keyless, guarded_server):
    for path in OPEN:
        assert keyless.get(path).status_code == 200
    for path in (
        "/assets",
        "/healthz/",
        "/healthz//",
        "/healthz%2f",
        "/HEALTHZ",
        "/v1/healthz",
        "/nowhere",
    ):
        assert_refused(keyless.get(path), 401, None, "invalid_api_key")
    assert refused_handshake(guarded_server.url, "/healthz").status_code == 401, (
        "no websocket is a probe"
    )
    protocol = {"sec-websocket-protocol": subprotocols(KEY)[0]}
    assert keyless.get("/v1/models", headers=protocol).status_code == 401, (
        "a subprotocol is no key for HTTP"
    )


def test_the_openapi_description_marks_routes_that_need_a_key(keyless, client):
    described = keyless.get("/openapi.json").json()
    schemes = described["components"]["securitySchemes"]
    assert schemes["key"] == {"type": "http", "scheme": "bearer"}
    assert schemes["key_header"] == {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    assert described["security"] == [{"key": []}, {"key_header": []}]
    found = {
        path: [one.get("security") for one in methods.values()]
        for path, methods in described["paths"].items()
    }
    assert {path for path, security in found.items() if [] in security} == {"/healthz", "/readyz"}
    assert client.get("/openapi.json").json()["security"][0] == {}


def test_each_key_is_accepted_and_a_wrong_one_or_two_are_refused(keyless):
    for key in (KEY, SECOND_KEY):
        for scheme in ("Bearer", "bearer"):
            assert (
                keyless.get("/v1/models", headers={"authorization": f"{scheme} {key}"}).status_code
                == 200
            )
    # right whichever is taken
    several = [("authorization", f"Bearer {key}") for key in (SECOND_KEY, KEY)]
    for headers in (*({"authorization": wrong} for wrong in WRONG_HEADERS), several):
        response = keyless.get("/v1/models", headers=headers)
        assert_refused(response, 401, None, "invalid_api_key")
        assert response.headers["www-authenticate"] == "Bearer"


BASIC = {"authorization": "Basic dGVhY2hlcjpjaGFsaw=="}
TOKEN = bearer("a token of a proxy")


def test_behind_a_proxy_with_its_own_authorization_the_key_has_another_header(
    keyless, guarded_server
):
    """And behind one that has a key of its own in that header, it is in Authorization."""
    for name in ("X-API-Key", "api-key"):
        for proxy in ({}, BASIC, TOKEN):
            assert keyless.get("/v1/models", headers={name: KEY, **proxy}).status_code == 200
        with connected(guarded_server.url, additional_headers={name: KEY, **BASIC}) as websocket:
            assert websocket.paint().last == "done"
        assert keyless.get("/v1/models", headers={name: WRONG, **bearer(KEY)}).status_code == 200
        for wrong in (
            [(name, WRONG)],
            [(name, WRONG), *TOKEN.items()],
            [("x-api-key", KEY), (name, WRONG)],
        ):
            assert (
                keyless.get("/v1/models", headers=wrong).json()["error"]["message"]
                == "Unknown API key."
            )
        assert keyless.get("/v1/models", headers={name: "", **bearer(KEY)}).status_code == 200
    assert "as X-API-Key" in keyless.get("/v1/models", headers=BASIC).json()["error"]["message"]


def test_a_refusal_comes_before_the_body_is_read(keyless):
    """A body beyond max_body_bytes, which with a key is answered with 413."""
    body = (bytes(1_000_000) for _ in range(20))
    assert_refused(
        keyless.post("/v1/images/generations", content=body), 401, None, "invalid_api_key"
    )


def test_a_websocket_opens_with_a_subprotocol_or_a_header(guarded_server, server):
    for url, key in (
        (guarded_server.url, KEY),
        (guarded_server.url, SECOND_KEY),
        (server.url, KEY),
    ):
        with connected(url, subprotocols=subprotocols(key, "scanline")) as websocket:
            assert websocket.socket.subprotocol == "scanline"
            assert websocket.paint().last == "done"
        with connected(url, additional_headers=bearer(key)) as websocket:
            assert websocket.paint().last == "done"


@pytest.mark.parametrize(
    "offered", [[], ["scanline"], subprotocols(WRONG, "scanline"), ["scanline", "key.a"]]
)
def test_a_websocket_without_a_key_is_refused(guarded_server, offered):
    answer = refused_handshake(guarded_server.url, subprotocols=offered or None)
    assert_refused(answer, 401, None, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_no_key_is_ever_shown(guarded_server, monkeypatch):
    """Neither log nor response shows a key, valid or invalid, plain or encoded; nor
    do settings, also of a variable.
    """
    answers = [
        httpx.get(f"{guarded_server.url}/v1/models", headers=bearer(key))
        for key in (KEY, SECOND_KEY, WRONG)
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 401]
    shown = [answer.text for answer in answers]
    shown += [
        httpx.get(f"{guarded_server.url}/v1/models", headers={"x-api-key": key}).text
        for key in (KEY, WRONG)
    ]
    with connected(guarded_server.url, subprotocols=subprotocols(KEY, "scanline")) as websocket:
        shown.append(str(websocket.socket.response.headers))
    shown += [
        refused_handshake(guarded_server.url, subprotocols=subprotocols(WRONG)).text,
        *guarded_server.log,
    ]
    assert '"status": 401' in "".join(shown)
    monkeypatch.setenv("SCANLINE_API_KEYS", f"{KEY},{SECOND_KEY}")
    settings = Settings()
    assert [key.get_secret_value() for key in settings.api_keys] == [KEY, SECOND_KEY]
    for secret in (KEY, SECOND_KEY, *subprotocols(KEY), subprotocols(KEY)[0].removeprefix("key.")):
        assert secret not in "".join([*shown, repr(settings)])


def test_the_log_states_whether_keys_are_needed(guarded_server, server):
    needed = "API key required on every route except probes, the page and /docs (2 keys set)"
    assert needed in guarded_server.log_text
    assert "No API key set: anyone who can reach this address can use it." in server.log_text


def test_an_invalid_key_option_or_variable_is_refused(monkeypatch):
    sentences = [
        (refused("serve", "--api-key", KEY, "--api-key", key), said) for key, said in BAD.items()
    ]
    for keys in ("", ",", f"{KEY},", f"{KEY}, {SECOND_KEY}"):
        monkeypatch.setenv("SCANLINE_API_KEYS", keys)
        sentences.append((refused("serve"), "a key must"))
    for sentence, said in sentences:
        assert sentence.startswith("--api-key: a key must")
        assert said in sentence
        assert KEY not in sentence


ALICE = "sk-alice-0001"
BOB = "sk-bob=0002=="
BROKEN = [  # part of the sentence, the file's content
    ("line 2 must be a name", [f"# \u2028mallory sk-m\nalice {ALICE} x", f"alice {ALICE}\nbob\n"]),
    (
        "line 1 must be a name",
        [f"alice {ALICE} admin", "alice sk,1", f"a/b {ALICE}", f"{'a' * 65} {ALICE}"],
    ),
    ("line 3 repeats a key under another name", [f"alice {ALICE}\n# more\nbob {ALICE}"]),
    ("this is not a text file", [b"\xff\xfe"]),
    (f"more than {MAX_KEYS} keys", ["".join(f"a k{number}\n" for number in range(MAX_KEYS + 1))]),
    ("larger than 1000000 bytes", ["# " + "a" * 1_000_000]),
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# who may paint\nalice {ALICE}\n\nbob\t{BOB}\n")
    path.chmod(0o640)
    return path


def test_names_are_those_of_the_file_and_keys_of_the_settings_are_numbered(path):
    keys = ApiKeys([SecretStr(KEY), SecretStr("sk-2")], path)
    assert [keys.name_of(key.encode()) for key in (KEY, "sk-2", ALICE, BOB)] == [
        "key-1",
        "key-2",
        "alice",
        "bob",
    ]
    assert [
        keys.name_of(key) for key in (b"", b"alice", ALICE[:-1].encode(), b"\xff" * 30_000)
    ] == [None] * 4
    assert (keys.names, len(keys)) == (["key-1", "key-2", "alice", "bob"], 4)
    path.write_text(f"alice {ALICE}\nalice sk-alice-0002\n")
    keys = ApiKeys([], path)
    assert keys.names == ["alice"]
    assert keys.name_of(b"sk-alice-0002") == keys.name_of(ALICE.encode()) == "alice"


@pytest.mark.parametrize(("said", "contents"), BROKEN, ids=[said for said, _ in BROKEN])
def test_a_broken_file_is_refused_at_the_start_and_later_changes_nothing(path, said, contents):
    keys = ApiKeys([], path)
    for content in contents:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ValueError, match=said) as caught:
            keys.reload()
        assert ALICE not in str(caught.value)
        assert keys.name_of(ALICE.encode()) == "alice"
        assert said in refused("serve", "--api-keys-file", path)


@pytest.mark.parametrize("content", ["", "# alice sk-1\n\n"])
def test_a_file_without_keys_is_refused_at_the_start_and_later_revokes_its_keys(path, content):
    keys = ApiKeys([SecretStr(KEY)], path)
    path.write_text(content)
    keys.reload()
    assert keys.names == ["key-1"]
    assert "there is no key in this file" in refused("serve", "--api-keys-file", path)


def test_a_missing_file_or_a_directory_is_refused(tmp_path):
    for missing in (tmp_path, tmp_path / "none"):
        assert (
            refused("serve", "--api-keys-file", missing)
            == f"--api-keys-file: there is no file {missing}"
        )
    with pytest.raises(ValueError, match="this is not a file"):
        read_keys(tmp_path)


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_world_readable_file_is_warned(path, mode, warned, caplog):
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        read_keys(path)
    assert ("everyone on this machine can read the API keys" in caplog.text) == warned


def test_keys_change_without_a_restart_and_are_named_in_log_and_metrics(grey_directory, path):
    def status(key):
        return httpx.get(f"{server.url}/v1/models", headers=bearer(key)).status_code

    with serve(
        grey_directory, "--api-keys-file", str(path), "--api-key", KEY, "--log-format", "json"
    ) as server:
        assert any("(3 keys set)" in line for line in server.log)
        with server.client(headers=bearer(ALICE)) as client:
            assert client.post("/v1/images/generations", json={"n": 3}).status_code == 200
            with connected(server.url, additional_headers=bearer(BOB)) as websocket:
                assert websocket.paint(n=2).last == "done"
                path.write_text(f"alice {ALICE}\n")
                with pytest.raises(ConnectionClosed, match=r"1008.*The API key was revoked"):
                    websocket.receive()
            status("sk-nobody")
            now = wait_for_metrics(
                client, lambda now: now.of("http_requests_by_key_total", key_name="bob") == 1
            )
            assert now.of("images_by_key_total", key_name="alice", model_name="grey") == 3
            assert now.of("images_by_key_total", key_name="bob") == 2
            assert now.of("images_by_key_total", key_name="key-1") == 0
            assert {sample.labels.get("key_name") for sample in now.samples} == {
                None,
                "alice",
                "bob",
                "key-1",
            }
        # Another key for Alice; an open connection of the old one ends with its next request.
        path.write_text("alice sk-alice-0002\n")
        wait_for(lambda: status("sk-alice-0002") == 200, "the new key")
        assert [status(key) for key in (ALICE, BOB, KEY)] == [401, 401, 200]
        # A broken file changes nothing, nor does one that is gone.
        path.write_text("alice\n")
        server.wait_for_log("line 1 must be a name")
        path.unlink()
        server.wait_for_log("No such file")
        assert status("sk-alice-0002") == 200
    events = [json.loads(line) for line in server.log]
    requests = [
        line
        for line in events
        if line["event"] == "request" and line.get("path") == "/v1/images/generations"
    ]
    assert [(line["key"], line["client"]) for line in requests] == [("alice", "127.0.0.1")]
    assert [line["key"] for line in events if line["event"] == "job"] == ["bob"]
    assert all("key" not in line for line in events if line.get("status") == 401)
    assert not [
        key for key in (ALICE, BOB, KEY, "sk-alice-0002", "sk-nobody") if key in server.log_text
    ]
