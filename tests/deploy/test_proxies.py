"""deploy/kubernetes/ray/nginx.conf and deploy/proxies in front of a real server:
what passes and what is refused.
"""

import json
import re
import socket
import threading
import time
from base64 import b64encode
from contextlib import ExitStack

import httpx
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from websockets.exceptions import InvalidStatus

from scanline.model.tasks.offline import paint
from tests.support.local_server import answering
from tests.support.pictures import encode, painted, text
from tests.support.server.infrastructure.nginx_proxy import nginx_before, runs_here
from tests.support.server.infrastructure.proxies import COMMANDS, FOLDER, proxy_before
from tests.support.server.json_requests import EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.running_server import PATIENCE, serve
from tests.support.server.sockets import (
    open_connection,
    parse_response,
    post_request,
    read_until_closed,
)
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

UPGRADE = post_request("/v1/images/stream", {}, upgrade="websocket", connection="upgrade, close")
SECRET_HEADERS = [
    "x-request-timeout-seconds",
    "x-request-disconnect-disabled",
    "serve-multiplexed-model-id",
]


@pytest.fixture(scope="module")
def nginx():
    if not runs_here():
        pytest.skip("nginx with its stream module is not installed")


@pytest.fixture(scope="module")
def proxy(nginx, grey_directory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nginx")
    with (
        serve(grey_directory, "--slots", "32") as server,
        nginx_before(server.url[7:], folder) as proxy,
    ):
        yield proxy


# of `upstream`
another = threading.Event()  # set: the second event may come, and all later ones
aborted = threading.Event()  # set: an answer could not be sent to its end


def send_events(exchange):
    exchange.send_response(200)
    exchange.send_header("content-type", "text/event-stream")
    exchange.send_header("connection", "close")
    exchange.end_headers()
    try:
        exchange.wfile.write(b"data: 1\n\n")
        another.wait(PATIENCE)
        while True:
            exchange.wfile.write(b"data: 2\n\n" * 1000)
    except OSError:
        aborted.set()


def answer(exchange):
    """Answer with the headers of the request, or under /events with one event after the other."""
    if exchange.path == "/events":
        send_events(exchange)
        return
    headers = {name.lower(): value for name, value in exchange.headers.items()}
    body = json.dumps(headers).encode()
    exchange.begin(len(body))
    exchange.wfile.write(body)


@pytest.fixture
def upstream(nginx, tmp_path):
    another.clear()
    aborted.clear()
    with answering(answer) as port:
        try:
            with nginx_before(f"127.0.0.1:{port}", tmp_path) as proxy:
                yield proxy
        finally:
            another.set()


def test_images_edits_events_and_websockets_pass(proxy, grey):
    expected = paint(grey, 3, seed=7, temperature=1.0).images.reshape(3, 7, 5)
    with httpx.Client(base_url=proxy.url, timeout=PATIENCE) as client:
        answer = client.post(GENERATIONS, json={"n": 3, "seed": 7})
        assert np.array_equal(painted(answer.json()), expected)
        assert len(answer.headers.get_list("x-request-id")) == 1
        assert np.array_equal(
            images(post_for_events(client, GENERATIONS, n=3, seed=7, partial_images=2)), expected
        )
        kept = client.post(
            EDITS, json={"image": text(encode(expected[0])), "keep_rows": 4, "n": 2}
        ).json()
        assert np.array_equal(painted(kept)[:, :4], np.broadcast_to(expected[0, :4], (2, 4, 5)))
        assert client.post(LIKELIHOODS, files=[("image", encode(expected[0]))]).status_code == 200
    with connected(proxy.url) as websocket:
        job = websocket.paint(type="generate", n=3, seed=7)
    assert np.array_equal(job.images().reshape(3, 7, 5), expected)


def test_events_pass_as_they_are_sent_and_a_client_that_leaves_is_seen(upstream):
    with httpx.stream("GET", f"{upstream.url}/events", timeout=PATIENCE) as answer:
        assert next(answer.iter_lines()) == "data: 1"  # the second one is not sent yet
        another.set()
    assert aborted.wait(PATIENCE)


def test_an_answer_that_nobody_reads_is_aborted(upstream):
    another.set()
    with open_connection(upstream, receive_buffer=4096) as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n")
        assert aborted.wait(PATIENCE)


def test_refusals_of_the_api_keep_their_words(proxy):
    with httpx.Client(base_url=proxy.url, timeout=PATIENCE) as client:
        for path, status, code in (
            ("/nowhere", 404, "not_found"),
            (GENERATIONS, 405, "method_not_allowed"),
        ):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
            assert len(answer.headers.get_list("x-request-id")) == 1
        assert client.post(GENERATIONS, json={"n": 0}).json()["error"]["param"] == "n"


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"GET /-/routes HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", 404, "not_found"),
        (b"nonsense\r\n\r\n", 400, "invalid_http"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n", 400, "invalid_http"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400, "invalid_http"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414, "address_too_long"),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 9000 + b"\r\n\r\n", 431, "headers_too_long"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000, 431, "headers_too_long"),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 16000001\r\nconnection: close\r\n\r\n",
            413,
            "body_too_large",
        ),
        (UPGRADE, 405, "method_not_allowed"),
    ],
)
def test_what_nginx_refuses_is_an_error_as_all(proxy, request_, status, code):
    with open_connection(proxy) as connection:
        connection.sendall(request_)
        answer = parse_response(read_until_closed(connection))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    wait_for(
        lambda: answer.headers["x-request-id"] in proxy.log.read_text(), "the refusal in the log"
    )


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_sends_nothing_more_is_disconnected(proxy, begun):
    with open_connection(proxy) as connection:
        connection.sendall(begun)
        read_until_closed(connection)  # its time limit is PATIENCE


def test_a_head_that_never_ends_is_cut_off_although_bytes_keep_coming(proxy):
    with open_connection(proxy) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        deadline = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < deadline:
                connection.sendall(b"a: b\r\n")
                time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            return
    pytest.fail("nginx still reads")


def test_one_address_has_limits_of_connections_requests_and_websockets(proxy):
    with ExitStack() as stack:
        silent = [stack.enter_context(open_connection(proxy)) for _ in range(60)]
        for connection in silent[40:]:
            assert read_until_closed(connection) == b""  # at once: no head was sent
    wait_for(lambda: _answers(proxy), "nginx to notice that these connections are closed")
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(proxy.url))
        with pytest.raises(InvalidStatus) as caught, connected(proxy.url):
            pass
        answer = caught.value.response
        assert (answer.status_code, json.loads(answer.body or b"")["error"]["code"]) == (
            429,
            "too_many_requests",
        )
        assert int(answer.headers["retry-after"]) > 0


def _answers(proxy):
    try:
        return httpx.get(f"{proxy.url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_pipelined_requests_are_answered_one_after_the_other(proxy):
    request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = request.replace(b"host: localhost", b"host: localhost\r\nconnection: close")
    with open_connection(proxy) as connection:
        connection.sendall(request * 50 + last)
        assert read_until_closed(connection).count(b'{"status":"ok"}') == 51


def test_a_client_can_neither_forge_its_address_nor_reach_serves_own_options(upstream):
    forged = {
        "x-forwarded-for": "192.0.2.1",
        "forwarded": "for=192.0.2.1",
        "x-session-id": "a",
        "upgrade": "h2c",
    }
    secret = dict.fromkeys(SECRET_HEADERS, "?1") | {"serve_multiplexed_model_id": "a"}
    for path in ("/", "/v1/images/stream"):
        headers = httpx.get(upstream.url + path, headers={**forged, **secret}).json()
        assert headers["x-forwarded-for"] == "127.0.0.1"
        absent = {*secret, "forwarded", "x-session-id"} - (
            {SECRET_HEADERS[0]} if path != "/" else set()
        )
        assert not headers.keys() & absent
        assert headers.get("x-request-timeout-seconds") == (None if path == "/" else "0")
    assert "upgrade" not in httpx.get(upstream.url, headers=forged).json()


def test_a_service_that_is_gone_is_reported_in_our_words(nginx, tmp_path):
    with nginx_before("127.0.0.1:1", tmp_path) as proxy:
        answer = httpx.get(f"{proxy.url}/v1/models", timeout=PATIENCE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert httpx.get(f"{proxy.url}/-/nginx").text == "ok\n"


@pytest.fixture(scope="module")
def trusting(grey_directory):
    with serve(
        grey_directory, "--slots", "32", "--trusted-proxy", "127.0.0.1", "--api-key", "sk-1"
    ) as server:
        yield server


OWN_KEY = {"x-api-key": "sk-1"}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_proxy_passes_everything_on(trusting, tmp_path, grey, name):
    with proxy_before(name, [trusting.url.removeprefix("http://")], tmp_path) as url:
        headers = {"authorization": "Bearer sk-1", "x-forwarded-for": "192.0.2.7"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
            wait_for(
                lambda: client.get("/readyz").status_code == 200, "the server behind the proxy"
            )
            answer = client.post(GENERATIONS, json={"n": 3, "seed": 7})
            expected = paint(grey, 3, seed=7, temperature=1.0).images.reshape(3, 7, 5)
            assert_array_equal(painted(answer.json()), expected)
            with client.stream(
                "POST", GENERATIONS, json={"n": 1000, "stream": True, "partial_images": 1}
            ) as events:
                assert next(events.iter_lines()).startswith("event: "), (
                    "long before the last image is done"
                )
        with connected(url, additional_headers=headers) as websocket:
            images = websocket.paint(type="generate", n=3, seed=7).images()
            assert_array_equal(images.reshape(expected.shape), expected)
        assert not [line for line in trusting.log if "client=192.0.2.7" in line], (
            "a client cannot choose its address"
        )
        with socket.create_connection(("127.0.0.1", httpx.URL(url).port), PATIENCE) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b" 200 " in connection.recv(65536)


def test_behind_a_password_below_a_path_the_key_has_its_own_header(nginx, trusting, tmp_path):
    page = (FOLDER.parents[1] / "docs/deploy.md").read_text()
    location = re.search(r"```nginx\n(.+?)```", page, re.DOTALL)
    assert location

    def with_location(conf):
        conf = re.sub(r"location / \{.+?\n        \}", location[1], conf, flags=re.DOTALL)
        return "user root;\n" + conf.replace("/etc/nginx/", f"{tmp_path}/")

    (tmp_path / "digits.htpasswd").write_text("teacher:{PLAIN}chalk\n")
    address = trusting.url.removeprefix("http://")
    basic = ("teacher", "chalk")
    with proxy_before("nginx.conf", [address], tmp_path, with_location) as proxy:
        url = f"{proxy}/digits"
        with httpx.Client(auth=basic, timeout=PATIENCE) as client:
            assert "<title>" in client.get(f"{url}/").text
            statuses = [
                client.post(url + GENERATIONS, json={}, headers=key).status_code
                for key in ({}, OWN_KEY)
            ]
            assert statuses == [401, 200]
        assert httpx.get(f"{url}/").headers["www-authenticate"].startswith("Basic")
        password = {"authorization": f"Basic {b64encode(':'.join(basic).encode()).decode()}"}
        with connected(url, additional_headers={**OWN_KEY, **password}) as websocket:
            assert websocket.paint(type="generate").order[-1] == "done"
