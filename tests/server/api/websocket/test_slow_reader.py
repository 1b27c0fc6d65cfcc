"""A websocket client that reads slowly delays no other client, and what it has not read is merged."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np

from scanline.server.engine.client.engine_client import EngineClient
from tests.support.in_process_server import wait_until_no_jobs
from tests.support.pictures import painted
from tests.support.waiting import PATIENCE
from tests.support.websocket_client import NOT_READING, WebsocketClient, connected

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


def test_a_slow_reader_delays_no_other_client_and_what_it_has_not_read_is_merged(
    in_process_server: tuple[str, EngineClient],
) -> None:
    with not_reading(in_process_server[0]) as (websocket, posted):
        received = websocket.receive_until_finished(1)[0]
    np.testing.assert_array_equal(received.images(), posted)
    # a tick paints at most 32 of 35 bytes: an image in one frame was merged
    frames = Counter(index for index, _, _ in received.frames)
    assert {frames[index] for index in range(IMAGES - 300, IMAGES)} == {1}


def test_a_slow_reader_that_disconnects_leaves_no_job(in_process_server: tuple[str, EngineClient]) -> None:
    url, engine = in_process_server
    with not_reading(url) as (websocket, _):
        assert engine.reserved_images == IMAGES
        websocket.socket.socket.close()
        wait_until_no_jobs(engine)
