"""The room of the queue: one client's share, a request's time, and what a
client that disconnects gives back.
"""

from contextlib import ExitStack

import httpx
import pytest

from scanline.server.settings import Settings
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_error, assert_refused, refused_handshake
from tests.support.server.frames import LONG_WORK
from tests.support.server.in_process_server import serve_in_process, wait_until_no_jobs
from tests.support.server.json_requests import MASKED, post
from tests.support.server.metrics_reader import Metrics, wait_for_metrics, wait_until_idle
from tests.support.server.routes import EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.shared_servers import (
    LIMITED_SLOTS,
    LONG,
    NO_DEADLINE,
    idle_client_of,
    server_of,
)
from tests.support.server.sockets import CLOSES, open_connection, post_request, reset
from tests.support.server.sse_reader import read, slow_stream
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for

MORE = 10_000  # images: as many are not painted in the moments between two requests


def assert_job_refused(websocket, code):
    """Fails unless a job of MORE images is answered with that error."""
    websocket.send(type="generate", id="more", n=MORE)
    while "more" not in websocket.jobs:
        websocket.receive()
    assert_error(websocket.jobs["more"].messages[0], None, code, 429)


def test_a_full_queue_refuses_more_until_a_cancel(full_queue_server, full_queue_client):
    """Streams before they begin, edits and likelihoods before their pictures are decoded."""
    pictures = {"image": [text(b"no picture")] * MORE}
    with connected(full_queue_server.url) as websocket:
        websocket.send(type="generate", id="full", n=LONG)
        websocket.receive()
        for url, fields in (
            (GENERATIONS, {"n": MORE}),
            (GENERATIONS, {"n": MORE, "stream": True}),
            (EDITS, pictures),
            (LIKELIHOODS, pictures),
        ):
            response = full_queue_client.post(url, json=fields)
            assert_refused(response, 429, None, "queue_full")
            assert int(response.headers["retry-after"]) > 0
        assert_job_refused(websocket, "queue_full")
        websocket.send(type="cancel", id="full")
        wait_until_idle(full_queue_client)
        post(full_queue_client, GENERATIONS)


def test_a_refused_request_gives_its_room_back(full_queue_client):
    small = {"image": text(encode(noise(3, 3))), "n": LONG, "keep_rows": 1}
    assert_refused(full_queue_client.post(EDITS, json=small), 400, "image", "wrong_size")
    assert Metrics(full_queue_client).of("num_images_reserved") == 0
    post(full_queue_client, GENERATIONS)
    assert_refused(
        full_queue_client.post(GENERATIONS, json={"n": LONG + 1}), 400, "n", "invalid_value"
    )


SLOTS = 4
MAX_WEBSOCKETS = 4
OPTIONS = {"slots": SLOTS, "max-waiting-images": LONG - SLOTS, "max-websockets": MAX_WEBSOCKETS}
OPTIONS |= {"max-images-per-request": LONG, "client-share": 0.5, **NO_DEADLINE}
SECOND_ADDRESS = "127.0.0.2"  # of a second client on this machine


shared = server_of(OPTIONS)
first = idle_client_of("shared")


def test_a_client_with_its_share_of_the_queue_is_refused_and_no_other(shared, first):
    second = httpx.HTTPTransport(local_address=SECOND_ADDRESS)
    with connected(shared.url) as websocket, shared.client(transport=second) as other:
        websocket.send(type="generate", n=LONG // 2)
        websocket.receive()
        refused = first.post(GENERATIONS, json={"n": MORE})
        assert_refused(refused, 429, None, "client_queue_full")
        assert 1 <= int(refused.headers["retry-after"]) <= 600
        assert_job_refused(websocket, "client_queue_full")
        post(other, GENERATIONS)
    assert Metrics(first).of("requests_rejected_total", reason="client_queue_full") >= 2
    # one that is above the share is refused without a time to retry
    refused = first.post(GENERATIONS, json={"n": LONG // 2 + 1})
    assert_refused(refused, 429, None, "client_queue_full")
    assert "retry-after" not in refused.headers
    assert refused.headers["x-should-retry"] == "false"


def test_a_client_with_its_share_of_websockets_is_refused_and_no_other(shared, first):
    with ExitStack() as opened:
        for _ in range(MAX_WEBSOCKETS // 2):
            opened.enter_context(connected(shared.url))
        assert_refused(refused_handshake(shared.url), 429, None, "too_many_websockets_of_client")
        with connected(shared.url, source_address=(SECOND_ADDRESS, 0)) as other:
            assert other.paint().last == "done"
    wait_until_idle(first, "websocket_connections")
    with connected(shared.url) as websocket:
        assert websocket.paint().last == "done"


SENTENCE = "The request exceeded the server's limit of 0.5 seconds."
ERROR = {"message": SENTENCE, "type": "server_error", "param": None, "code": "request_timeout"}


@pytest.fixture(scope="module")
def impatient(grey_directory):
    limits = {
        "max_waiting_images": 2 * LONG,
        "max_images_per_request": LONG,
        "client_share": 1,
        "request_timeout": 0.5,
    }
    with serve_in_process(
        Settings(models=(str(grey_directory),), slots=4, threads=1, **limits)
    ) as served:
        yield served


def test_a_request_a_stream_and_a_websocket_job_time_out_and_leave_no_job(impatient):
    url, engine = impatient
    with httpx.Client(base_url=url, timeout=PATIENCE) as client, connected(url) as websocket:
        response = client.post(GENERATIONS, json={"n": LONG})
        assert (response.status_code, response.json()["error"]) == (504, ERROR)
        assert response.headers["x-should-retry"] == "false", "the request is not to be sent again"
        assert Metrics(client).of("errors_total", code="request_timeout") >= 1
        with client.stream(
            "POST", GENERATIONS, json={"n": LONG, "stream": True, "partial_images": 3}
        ) as response:
            assert response.status_code == 200
            assert read(response.iter_lines())[-1] == {"error": ERROR}
        job = websocket.paint(id="long", n=LONG)
        assert job.messages[-1] == {"type": "error", "id": "long", "error": ERROR}
        assert_error(websocket.paint(id="wrong", n=0).messages[-1], "n", "invalid_value")
        wait_until_no_jobs(engine)


def test_a_stream_that_is_not_read_times_out(impatient):
    url, engine = impatient
    with slow_stream(url, n=LONG):
        wait_for(lambda: engine.jobs, "a job")
        wait_until_no_jobs(engine)


def ended(metrics, reason):
    return metrics.of("request_success_total", operation="paint", finished_reason=reason)


@pytest.mark.parametrize("close", CLOSES)
@pytest.mark.parametrize("transport", LONG_WORK)
def test_a_client_that_disconnects_while_painting_gives_its_room_back(
    limited_server, limited_client, transport, close
):
    before = ended(Metrics(limited_client), "cancelled")
    with open_connection(limited_server) as connection:
        LONG_WORK[transport](connection)
        if transport != "post":  # a stream, of which some has been read
            read = 0
            while read < 20_000:
                read += len(connection.recv(4096))
        wait_for_metrics(limited_client, lambda now: now.of("num_images_running") == LIMITED_SLOTS)
        CLOSES[close](connection)
        wait_until_idle(limited_client)
    assert ended(Metrics(limited_client), "cancelled") == before + 1


def test_a_disconnect_during_the_response_cancels_nothing(limited_server, limited_client):
    """Its images are painted; the server stays silent about the connection
    and counts the request as finished.
    """
    before = Metrics(limited_client)
    with open_connection(limited_server, receive_buffer=4096) as connection:
        connection.sendall(post_request(GENERATIONS, {"n": 1000}))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        reset(connection)
    expected = ended(before, "finished") + 1
    now = wait_for_metrics(limited_client, lambda now: ended(now, "finished") == expected)
    assert ended(now, "cancelled") == ended(before, "cancelled")


@pytest.mark.parametrize(("url", "close"), [(GENERATIONS, "half-close"), (EDITS, "reset")])
def test_a_disconnect_in_a_request(limited_server, limited_client, url, close):
    """The server knows of the request, since it logs it, and
    neither accepts nor counts an image.
    """
    before = Metrics(limited_client)
    fields = {"image": MASKED["image"], "keep_rows": 3}
    with open_connection(limited_server) as connection:
        connection.sendall(post_request(url, fields, x_request_id=f"unsent-{close}")[:-20])
        assert Metrics(limited_client).of("num_images_reserved") == 0
        CLOSES[close](connection)
        limited_server.wait_for_log(f"request_id=unsent-{close}")
    now = wait_until_idle(limited_client)
    for name in ("request_success_total", "images_total", "generation_tokens_total"):
        assert now.of(name) == before.of(name)
