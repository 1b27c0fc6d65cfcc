"""The first signal drains: new work is refused, accepted work finishes,
and the server exits with status 0.

The engine is stopped while other clients send requests to the draining server,
so that work lasts as long as that.
"""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest

from scanline.model.tasks.offline import paint
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_error, assert_refused, refused_handshake
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.routes import GENERATIONS
from tests.support.server.running_server import serve
from tests.support.server.sse_reader import images, post_for_events
from tests.support.server.websocket_client import JobMessages, connected
from tests.support.waiting import PATIENCE, wait_for

WORK = 12 + 12 + 5 + 5  # images of all work at the time of the signal
SHUTTING_DOWN = (None, "shutting_down", 503)


@dataclass
class Observed:
    """What clients observed of a server that was signalled while it worked for them."""

    posted: httpx.Response
    events: list[dict[str, Any]]
    jobs: dict[object, JobMessages]
    closed: int  # the code that their websocket was closed with
    status: int
    log: str
    # responses to other clients during the drain, by request
    others: dict[str, Any] = field(default_factory=dict)


def signalled(server, continues):
    """Signals a server that has work of every kind; with `continues`, it then continues."""
    others = {}
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor())
        client, listener, asker = (stack.enter_context(server.client()) for _ in range(3))
        websocket, idler = (stack.enter_context(connected(server.url)) for _ in range(2))
        engine = server.engine
        os.kill(engine, signal.SIGSTOP)
        posted = pool.submit(client.post, GENERATIONS, json={"n": 12, "seed": 1})
        events = pool.submit(post_for_events, listener, GENERATIONS, n=12, seed=2, partial_images=1)
        websocket.send(type="generate", id="a", n=5, seed=3)
        websocket.send(type="generate", id="b", n=5, seed=4)
        wait_for_metrics(asker, lambda now: now.of("num_images_reserved") == WORK)
        # a terminal signals all processes; the engine is stopped, so that its signals stay pending
        for pid in (engine, engine, server.process.pid):
            os.kill(pid, signal.SIGINT if pid == engine else signal.SIGTERM)
        if continues:
            wait_for(lambda: asker.get("/readyz").status_code == 503, "a server that drains")
            others = meanwhile(server, asker, websocket)
            others["idler"] = idler.closing_code()
            os.kill(engine, signal.SIGCONT)
        closed = websocket.closing_code()
        responses = (posted.result(PATIENCE), events.result(PATIENCE), websocket.jobs, closed)
    return Observed(*responses, server.wait_until_exited(), server.log_text, others)


def meanwhile(server, asker, websocket):
    answers = {path: asker.get(path) for path in ("/readyz", "/healthz", "/metrics", "/v1/models")}
    answers |= {
        path: asker.post(f"/v1/images/{path}", json={})
        for path in ("generations", "edits", "likelihoods")
    }
    answers["a websocket"] = refused_handshake(server.url)
    websocket.send(type="generate", id="late")
    while "late" not in websocket.jobs:
        websocket.receive()
    return {**answers, "an upload": asker.post("/v1/images/edits", content=bytes(8_000_000))}


@pytest.fixture(scope="module")
def drained(grey_directory):
    with serve(
        grey_directory, "--slots", "8", "--drain-seconds", str(PATIENCE), "--engine-timeout", "300"
    ) as server:
        yield signalled(server, continues=True)


def test_accepted_work_is_completed_and_the_server_exits_without_an_error(drained, grey):
    found = [painted(drained.posted.json()), images(drained.events)]
    found += [drained.jobs[name].images() for name in ("a", "b")]
    for seed, each in enumerate(found, 1):
        np.testing.assert_array_equal(
            each.reshape(len(each), 35), paint(grey, len(each), seed=seed).images
        )
    assert [len(each) for each in found] == [12, 12, 5, 5]
    assert [drained.jobs[name].last for name in ("a", "b")] == ["done", "done"]
    assert drained.status == 0
    assert "Traceback" not in drained.log


def test_new_work_is_refused_with_a_time_to_retry(drained):
    for name in ("/readyz", "generations", "edits", "likelihoods", "an upload", "a websocket"):
        assert_refused(drained.others[name], 503, None, "shutting_down")
        assert int(drained.others[name].headers["retry-after"]) > 0
    assert_error(drained.jobs["late"].messages[-1], *SHUTTING_DOWN)
    for path in ("/healthz", "/metrics", "/v1/models"):
        assert drained.others[path].status_code == 200, "routes that only read are answered"


def test_connections_are_closed_so_that_clients_reconnect_elsewhere(drained):
    for name in ("/readyz", "/healthz", "generations", "a websocket"):
        assert drained.others[name].headers["connection"] == "close"
    assert drained.posted.headers["connection"] == "close"
    assert drained.closed == 1001  # when their work is done
    assert drained.others["idler"] == 1001  # at once


def test_work_beyond_the_drain_timeout_gets_an_error(grey_directory):
    with serve(
        grey_directory, "--slots", "8", "--drain-seconds", "0.5", "--engine-timeout", "300"
    ) as server:
        overdue = signalled(server, continues=False)
    assert_refused(overdue.posted, 503, None, "shutting_down")
    assert int(overdue.posted.headers["retry-after"]) > 0
    for last in (
        overdue.jobs["a"].messages[-1],
        overdue.jobs["b"].messages[-1],
        overdue.events[-1],
    ):
        assert_error(last, *SHUTTING_DOWN)
    assert (overdue.closed, overdue.status) == (1001, 1)
    assert "Traceback" not in overdue.log
