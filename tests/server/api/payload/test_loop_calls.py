"""Every call that the event loop makes with a client's text is short at
the longest text, in processor time.

What is long in threads is in test_long_calls.py.
"""

import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from pydantic import SecretStr
from starlette import requests

from scanline.server.api.base.loop_time import LoopTime
from scanline.server.settings import Settings
from tests.server.api.payload.test_hostile_input import (
    END,
    FORMS,
    HEAD,
    KEPT,
    ROUTES,
    TEXTS,
    UPLOAD,
    X,
)
from tests.support.server.in_process_server import serve_in_process
from tests.support.server.routes import EDITS, GENERATIONS
from tests.support.server.shared_servers import KEY, bearer
from tests.support.server.sockets import exchange
from tests.support.waiting import PATIENCE

API = Path(__file__).parents[4] / "server/api"
# seconds of this machine's or a faster one's processor
LONGEST_HEAD = 0.02
LONGEST_STEP = 0.05
LENGTH = 31_000  # of a header; with the others of a request it is not too long

HEADERS = {  # that are read, and a request with which they are
    **dict.fromkeys(
        ("accept", "content-type", "content-encoding", "expect"), ("POST", GENERATIONS)
    ),
    **dict.fromkeys(
        ("authorization", "x-api-key", "cookie", "host", "forwarded", "baggage"),
        ("GET", "/v1/models"),
    ),
    **dict.fromkeys(
        ("x-forwarded-for", "x-request-id", "origin", "sec-fetch-site", "referer"),
        ("GET", "/v1/models"),
    ),
    **dict.fromkeys(
        ("accept-encoding", "if-none-match", "range", "if-range"), ("GET", "/openapi.json")
    ),
    **dict.fromkeys(("x-forwarded-proto", "x-forwarded-prefix"), ("GET", "/")),
    **dict.fromkeys(
        ("access-control-request-method", "access-control-request-headers"),
        ("OPTIONS", "/v1/models"),
    ),
    **dict.fromkeys(
        ("connection", "upgrade", "te", "traceparent", "tracestate"), ("GET", "/healthz")
    ),
    **dict.fromkeys(
        ("sec-websocket-protocol", "sec-websocket-extensions"), ("GET", "/v1/images/stream")
    ),
}
PIECES = (
    ",",
    ";",
    " ",
    '"',
    "=",
    "x",
    "a,",
    ";a=",
    ';"',
    "a;q=0.1,",
    "1-2,",
    'W/"a",',
    "1.1.1.1,",
    "key.a,",
    "%25",
    "\t,",
)
PARAMETERS = b'; filename="a"' + b"; a=b" * 800  # of a part: as long as its head may be
HOSTILE_FORMS = {
    "a type of semicolons": (f"multipart/form-data{';' * LENGTH}", b""),
    "a type of quotes": (f'multipart/form-data; boundary="{";" * LENGTH}', b""),
    "parts of parameters": (
        X,
        b"".join(HEAD + b'image"' + PARAMETERS + b"\r\n\r\na\r\n" for _ in range(20)) + END,
    ),
    "parts of semicolons": (
        X,
        (HEAD + b'image"; x="' + b";" * 4000 + b'"\r\n\r\na\r\n') * 20 + END,
    ),
    "small parts": (X, UPLOAD + (HEAD + b'image"; filename="a"\r\n\r\na\r\n') * 900 + KEPT + END),
    "small heads": (X, (HEAD + b'image"\r\n' + b"a: b\r\n" * 7 + b"\r\na\r\n") * 500 + END),
}


@pytest.fixture(scope="module")
def server(grey_directory):
    settings = Settings(
        models=(str(grey_directory),),
        api_keys=(SecretStr(KEY),),
        allow_origins=("https://page.example",),
        trusted_proxies=("127.0.0.1",),
        max_overhead_per_second=100_000,
        slots=4,
        threads=1,
    )
    with serve_in_process(settings) as (url, _):
        yield SimpleNamespace(url=url)


def longest(seconds):
    """The bound on this machine, which may be a slow one: not below
    some twice the time of a known loop.
    """
    began = time.thread_time()
    for _ in range(300_000):
        pass
    return seconds * max(1.0, (time.thread_time() - began) / 0.008)


@pytest.mark.parametrize("name", HEADERS)
def test_a_header(server, name):
    method, path = HEADERS[name]
    loop = next(thread for thread in threading.enumerate() if thread.name.endswith("(run)"))
    clock = time.pthread_getcpuclockid(loop.ident)
    fixed = {
        "host": "127.0.0.1",
        "connection": "close",
        "content-type": "application/json",
        **bearer(KEY),
    }
    if method == "OPTIONS":
        fixed |= {"origin": "https://page.example", "access-control-request-method": "GET"}
    if path.endswith("/stream"):
        fixed |= {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
        fixed["sec-websocket-key"] = "dGhlIHNhbXBsZSBub25jZQ=="
        del fixed["authorization"]  # so that it is refused, and closed
    body = "{" if method == "POST" else ""
    for piece in PIECES:
        begin = "close," if name == "connection" else "a"
        headers = {
            **fixed,
            name: f"{begin}{piece * (LENGTH // len(piece))}a",
            "content-length": str(len(body)),
        }
        head = "".join(
            f"{key}: {value}\r\n"
            for key, value in headers.items()
            if body or key != "content-length"
        )
        seconds = []
        for _ in range(3):
            began = time.clock_gettime(clock)
            assert exchange(server, f"{method} {path} HTTP/1.1\r\n{head}\r\n{body}".encode())
            seconds.append(time.clock_gettime(clock) - began)
        assert min(seconds) < longest(LONGEST_HEAD), (piece, seconds)


@pytest.fixture
def steps(monkeypatch):
    """The seconds of each step of requests."""
    steps = []
    end_step = LoopTime.end_step

    def ended(self):
        steps.append(time.thread_time() - self.began)
        end_step(self)

    monkeypatch.setattr(LoopTime, "end_step", ended)
    return steps


@pytest.mark.parametrize("label", [*FORMS, *HOSTILE_FORMS])
def test_a_form(server, label, steps):
    kind, body = {**FORMS, **HOSTILE_FORMS}[label]
    headers = {"content-type": kind.encode("latin-1"), **bearer(KEY)}
    longest_steps = []
    for _ in range(3):  # of which one may collect garbage of other tests
        steps.clear()
        response = httpx.post(server.url + EDITS, content=body, headers=headers, timeout=PATIENCE)
        assert response.status_code >= 400
        longest_steps.append(max(steps))
    assert min(longest_steps) < longest(LONGEST_STEP)


@pytest.mark.parametrize("path", ROUTES)
def test_a_text(server, path, steps):
    schema, given = ROUTES[path]
    texts = {
        **TEXTS,
        "letters": "\u0f73 " * 15_990,
        "others": "".join(map(chr, range(0x3400, 0x3400 + 31_000))),
    }
    with httpx.Client(base_url=server.url, timeout=PATIENCE, headers=bearer(KEY)) as client:
        for field in ("prompt", "class", "model", "size", "user", "images", "response_format"):
            for label, hostile in texts.items():
                steps.clear()
                client.post(path, json={**given, field: hostile})
                assert max(steps) < longest(LONGEST_STEP), (field, label)
        listed = {**given, "class": ["\u0f73 seven"] * 900}
        client.post(path, json=listed)
        assert max(steps) < longest(LONGEST_STEP), schema


@pytest.mark.parametrize(
    "target", ["/?" + "a=b&" * 7700, "/?" + "&" * LENGTH, "/?" + "%41" * 10_000, "/" * LENGTH]
)
def test_a_target(server, target, steps):
    for path in ("/v1/models", "/assets", "/v1/models/a"):
        assert exchange(
            server, f"GET {path}{target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode()
        )
    assert max(steps) < longest(LONGEST_HEAD)


def test_a_query_is_not_parsed(server, monkeypatch):
    parsed = []
    monkeypatch.setattr(requests, "QueryParams", parsed.append)
    for path in ("/v1/models", "/v1/models/a", "/healthz", "/"):
        assert exchange(
            server,
            f"GET {path}?{'a&' * 9000} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode(),
        )
    assert {bytes(query) for query in parsed} <= {b""}


def test_the_table_has_every_header_and_every_place_that_reads_one():
    reads = r'headers(?:\.get(?:list)?\(|\[)|scope\["headers"\]|Headers\(scope|"subprotocols"|def on_(?:url|header)\b'
    found = {path: re.findall(reads, path.read_text()) for path in API.rglob("*.py")}
    assert {str(path.relative_to(API)): len(calls) for path, calls in found.items() if calls} == {
        "payload/kept_file.py": 2,
        "middleware/compression.py": 1,
        "middleware/auth.py": 3,
        "middleware/client.py": 1,
        "middleware/draining.py": 1,
        "middleware/hosts.py": 1,
        "middleware/limits.py": 2,
        "middleware/origins.py": 6,
        "middleware/request_id.py": 1,
        "payload/accept.py": 2,
        "payload/form_parser.py": 1,
        "payload/json_object.py": 2,
        "routes/metrics.py": 1,
        "routes/preview.py": 2,
        "routes/weights.py": 3,
        "routes/websocket.py": 1,
        "transport/http_protocol.py": 3,
    }, "a place that reads a client's headers and is new: bound it, and add its header to the table"
    names = {
        name
        for path in found
        for name in re.findall(r'headers\.get(?:list)?\("([a-z-]+)"', path.read_text())
    }
    assert names <= HEADERS.keys()
