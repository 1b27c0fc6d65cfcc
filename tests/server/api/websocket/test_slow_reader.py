"""A websocket client that reads slowly delays no other client, and what it has not read is merged."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from scanline.server.engine.client.engine_client import EngineClient
from tests.support.in_process_server import wait_until_no_jobs
from tests.support.pictures import painted
from tests.support.waiting import PATIENCE
from tests.support.websocket_client import NOT_READING, JobMessages, WebsocketClient, connected

IMAGES = 1000


@contextmanager
def not_reading(url: str) -> Iterator[tuple[WebsocketClient, np.ndarray]]:
    """A websocket whose job has been painted without being read, and the images of another client.

    The other client requests as many images later; the two take turns, so that both jobs are painted by then.
    """
    with socket.socket() as narrow, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect((client.base_url.host, client.base_url.port))
        with connected(url, sock=narrow, **NOT_READING) as websocket:
            websocket.send(type="generate", n=IMAGES, seed=7)
            websocket.receive()
            posted = client.post("/v1/images/generations", json={"n": IMAGES, "seed": 7})
            yield websocket, painted(posted.json()).reshape(IMAGES, 35)


@pytest.fixture(scope="module")
def missed(in_process_server: tuple[str, EngineClient]) -> tuple[JobMessages, np.ndarray]:
    """What a slow reader gets in the end, and the images that another client got meanwhile."""
    with not_reading(in_process_server[0]) as (websocket, posted):
        return websocket.receive_until_finished(1)[0], posted


def test_a_slow_reader_delays_no_other_client_and_misses_nothing(missed: tuple[JobMessages, np.ndarray]) -> None:
    received, posted = missed
    np.testing.assert_array_equal(received.images(), posted)


def test_what_a_slow_reader_has_not_read_is_merged(missed: tuple[JobMessages, np.ndarray]) -> None:
    """A tick paints at most 32 of 35 bytes: an image in one frame was merged."""
    received, _ = missed
    frames = Counter(index for index, _, _ in received.frames)
    assert {frames[index] for index in range(IMAGES - 300, IMAGES)} == {1}


def test_a_slow_reader_that_disconnects_leaves_no_job(in_process_server: tuple[str, EngineClient]) -> None:
    url, engine = in_process_server
    with not_reading(url) as (websocket, _):
        assert engine.reserved_images == IMAGES
        websocket.socket.socket.close()
        wait_until_no_jobs(engine)
