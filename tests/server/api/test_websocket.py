"""The websocket: jobs and their messages, errors, cancelling,
snapshots of states, and its limits.
"""

import json
import socket
from base64 import b64decode
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import torch
from websockets.frames import Opcode

from scanline.model.base.state import State
from scanline.server.api.base.rate_limit import FrameThrottle
from scanline.server.api.routes.state_snapshot import MAX_WATCHED_OF_CLIENT
from scanline.server.api.routes.websocket import Connection
from tests.support.close import assert_close
from tests.support.server.error_answers import assert_error, assert_refused, refused_handshake
from tests.support.server.frames import frame
from tests.support.server.json_requests import generate
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.shared_servers import (
    LONG,
    MAX_BODY_BYTES,
    MAX_JOBS,
    MAX_MESSAGES,
    MAX_WEBSOCKETS,
)
from tests.support.server.sockets import open_connection
from tests.support.server.websocket_client import NOT_READING, connected


def test_a_job_begins_with_its_description_has_frames_before_images_and_is_done(websocket):
    job = websocket.paint(id="a", n=70, seed=7)
    size = {"height": 7, "width": 5, "channels": 1, "temperature": 1, "guidance": 1}
    assert job.messages[0] == {
        "type": "started",
        "id": "a",
        "job": 0,
        "model": "grey",
        "n": 70,
        "seed": 7,
        **size,
    }
    assert job.messages[-1] == {"type": "done", "id": "a"}
    assert (job.order[0], job.last) == ("started", "done")
    last = {what: place for place, what in enumerate(job.order)}
    assert all(last[f"frame {index}"] < last[f"image {index}"] for index in range(70))


def test_default_ids_are_unused_ones_of_the_connection(websocket, server):
    websocket.send_together(
        {"type": "generate", "id": 0, "n": 200}, {"type": "generate"}, {"type": "generate"}
    )
    assert set(websocket.receive_until_finished(3)) == {0, 1, 2}
    first, second = (websocket.paint(id="a").messages[0] for _ in range(2))
    assert (first["job"], second["job"]) == (3, 4), "an id that is done can be used again"
    with connected(server.url) as other:
        assert other.paint().messages[0]["id"] == 0


def test_jobs_run_concurrently(websocket):
    websocket.send_together(
        {"type": "generate", "id": "long", "n": 1000}, {"type": "generate", "id": "short"}
    )
    jobs = websocket.receive_until_finished(1)
    assert (jobs["short"].last, jobs["long"].last == "done") == ("done", False)


# the parameter that is named, the code, what is sent as it is
MESSAGES = [
    (None, "invalid_json", ["paint me a seven", "", "9" * 10_000, b'{"type": "generate"}']),
    (None, "invalid_json", ['{"type": "cancel", "id": "\\ud800"}']),  # half a surrogate pair
    (None, "json_too_complex", ["[" * 100_000]),
    (None, "invalid_body", ['[{"type": "generate"}]']),
    ("type", "invalid_value", [{"n": 4}, {"type": "paint"}, {"type": ["generate"]}]),
    ("id", "invalid_value", [{"type": "generate", "id": bad} for bad in ([1], "a" * 257, 0.5)]),
    ("id", "job_not_found", [{"type": "cancel"}]),
]


def test_an_invalid_message_is_answered_with_an_error_and_the_next_one_is_done(websocket):
    for param, code, messages in MESSAGES:
        for message in messages:
            websocket.socket.send(json.dumps(message) if isinstance(message, dict) else message)
            error = websocket.receive().messages[-1]
            assert (error["type"], error.get("id")) == ("error", None), message
            assert_error(error, param, code)
    assert websocket.paint().last == "done"


def test_an_id_is_free_once_its_job_is_cancelled(websocket):
    websocket.send(type="generate", id="a", n=2000)
    websocket.receive()
    websocket.send_together({"type": "cancel", "id": "a"}, {"type": "generate", "id": "a", "n": 2})
    while "cancelled" not in websocket.receive().messages[-1]:
        pass
    assert websocket.receive_until_finished(1)["a"].images().shape == (2, 35)


def test_a_websocket_that_breaks_is_closed(in_process_server, monkeypatch):
    async def broken(connection):
        raise RuntimeError("It broke.")

    monkeypatch.setattr(Connection, "run", broken)
    with connected(in_process_server[0]) as websocket:
        assert websocket.closing_code() == 1011


def test_an_id_in_use_is_refused_and_its_job_continues(websocket):
    websocket.send_together(
        {"type": "generate", "id": "a", "n": 100}, {"type": "generate", "id": "a"}
    )
    while (job := websocket.receive()).last != "error":
        pass
    assert_error(job.messages[-1], "id", "invalid_value")
    assert websocket.receive_until_finished(1)["a"].images().shape == (100, 35)


def test_each_frame_is_counted(in_process_server, monkeypatch):
    counted = []

    async def pause(throttle, frames):
        counted.append(frames)

    monkeypatch.setattr(FrameThrottle, "pause", pause)
    with connected(in_process_server[0]) as websocket:
        assert len(websocket.paint(n=200).frames) == sum(counted)


@pytest.fixture
def of_colour(colour_server):
    with connected(colour_server.url) as of_colour:
        yield of_colour


def values(text):
    return torch.tensor(np.frombuffer(b64decode(text), "<f4"))


def test_a_state_snapshot_is_that_of_the_recurrence(of_colour, colour):
    job = of_colour.paint(n=2, seed=7, state=[1, 0])
    snapshots = [message for message in job.messages if message["type"] == "state"]
    positions = [snapshot["position"] for snapshot in snapshots]
    assert positions == sorted(set(positions))
    assert positions[-1] == colour.config.bytes
    image = torch.tensor(np.frombuffer(job.image(0), np.uint8)).unsqueeze(0)
    for snapshot in snapshots:
        state = State.zeros(colour.config, 1)
        with torch.inference_mode():
            colour.parallel(image, state, snapshot["position"])
        assert_close("s", state.s[1, 0, 0].reshape(-1), values(snapshot["s"]))
        assert_close("z", state.z[1, 0, 0].reshape(-1), values(snapshot["z"]))


def test_the_number_of_observed_jobs_of_a_client_is_limited(of_colour):
    of_colour.send_together(
        *({"type": "generate", "n": 40, "state": [0, 0]} for _ in range(MAX_WATCHED_OF_CLIENT + 1))
    )
    jobs = of_colour.receive_until_finished(MAX_WATCHED_OF_CLIENT + 1)
    refused = [job.messages[-1]["error"]["code"] for job in jobs.values() if job.last == "error"]
    assert refused == ["too_many_state_snapshots"]
    assert of_colour.paint(state=[0, 0]).last == "done"


CANCELLED = {"type": "done", "id": "a", "cancelled": True}


@pytest.fixture
def limited(limited_server, limited_client):
    with connected(limited_server.url) as limited:
        yield limited


def test_a_cancelled_job_is_done_early_and_sends_nothing_more_also_before_it_began(limited):
    limited.send(type="generate", id="a", n=LONG, seed=1)
    limited.receive()
    limited.send(type="generate", id="b", n=40, seed=2)
    limited.send(type="cancel", id="a")
    job = limited.receive_until_finished(2)["a"]
    assert limited.jobs["b"].images().shape == (40, 35)
    assert (job.messages[-1], job.last) == (CANCELLED, "done")
    for number in range(10):  # its id can be used again
        limited.send_together({"type": "generate", "id": "c"}, {"type": "cancel", "id": "c"})
        assert limited.receive_until_finished(1)["c"].messages == [CANCELLED | {"id": "c"}] * (
            number + 1
        )
    assert limited.paint(id="a").last == "done"


def test_one_websocket_too_many_is_refused(limited_server, limited_client):
    with ExitStack() as open_ones:
        for _ in range(MAX_WEBSOCKETS):
            open_ones.enter_context(connected(limited_server.url))
        refused = refused_handshake(limited_server.url)
        assert_refused(refused, 503, None, "too_many_websockets")
        assert refused.headers["retry-after"] == "2"
        generate(limited_client)
        for number in range(2, MAX_WEBSOCKETS + 1):  # while fewer clients than the limit have any
            newcomer = {"source_address": (f"127.0.0.{number}", 0)}
            painted = open_ones.enter_context(connected(limited_server.url, **newcomer)).paint()
            assert painted.last == "done"
            assert_refused(
                refused_handshake(limited_server.url, **newcomer), 503, None, "too_many_websockets"
            )
        one_more = {"source_address": (f"127.0.0.{MAX_WEBSOCKETS + 1}", 0)}
        assert_refused(
            refused_handshake(limited_server.url, **one_more), 503, None, "too_many_websockets"
        )


def test_one_job_too_many_is_refused_and_the_others_continue(limited_server, limited):
    for number in range(MAX_JOBS):
        limited.send(type="generate", id=number, n=LONG)
    limited.send(type="generate", id="more")
    while "more" not in limited.jobs:
        limited.receive()
    assert_error(limited.jobs["more"].messages[-1], None, "too_many_jobs", 429)
    with connected(limited_server.url) as other:
        assert other.paint().last == "done", "each websocket has a limit of its own"
    limited.send(type="cancel", id=0)
    limited.receive_until_finished(1)
    assert limited.paint(id="more").last == "done"


def test_many_large_or_countless_messages_close_it(limited_server, limited_client):
    """Pieces are empty, so that no limit of bytes is ever reached."""
    first, more = (frame(code, fin=False) for code in (Opcode.TEXT, Opcode.CONT))
    for act, code in (
        (lambda websocket: websocket.send_together(*[{}] * 10 * MAX_MESSAGES), 1008),
        (lambda websocket: websocket.send(type="generate", user="x" * MAX_BODY_BYTES), 1009),
        (lambda websocket: websocket.socket.socket.sendall(first + more * 3000), 1009),
    ):
        with connected(limited_server.url) as websocket:
            websocket.send(type="generate", n=LONG)
            act(websocket)
            assert websocket.closing_code() == code
        if code == 1008:
            assert websocket.jobs[None].messages[-1]["error"]["code"] == "too_many_messages"


@contextmanager
def not_reading(server):
    """A client that reads nothing, on a connection with a small receive
    buffer; it disconnects at the end.
    """
    with (
        open_connection(server, receive_buffer=4096) as connection,
        connected(server.url, sock=connection, **NOT_READING) as websocket,
    ):
        yield websocket
        websocket.socket.socket.shutdown(socket.SHUT_RDWR)


def test_a_client_that_does_not_read_blocks_no_other(limited_server, limited_client):
    """It has as many jobs as it may; when it disconnects, the fixture
    waits until all of them are gone.
    """
    with not_reading(limited_server) as websocket:
        for number in range(MAX_JOBS):
            websocket.send(type="generate", id=number, n=LONG)
        wait_for_metrics(limited_client, lambda now: now.of("num_jobs") == MAX_JOBS)
        generate(limited_client)


def test_pings_of_one_that_does_not_read_use_no_memory(limited_server, limited_client):
    def memory():
        return float(
            limited_client.get("/metrics")
            .text.split("\nprocess_resident_memory_bytes ")[1]
            .split()[0]
        )

    with not_reading(limited_server) as websocket:
        before = memory()
        websocket.socket.socket.sendall(frame(Opcode.PING, b"x" * 125) * 100_000)
        assert memory() - before < 8_000_000  # of 12.5 MB
