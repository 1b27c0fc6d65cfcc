"""A websocket client that reads slowly delays no other client, and what it has not read is merged."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np

from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_refused
from tests.support.server.in_process_server import serve_in_process, wait_until_no_jobs
from tests.support.server.websocket_client import NOT_READING, WebsocketClient, connected
from tests.support.waiting import PATIENCE, wait_for

IMAGES = 1000
OTHER_ADDRESS = httpx.HTTPTransport(local_address="127.0.0.2")


def accepted(client: httpx.Client, **fields: int) -> httpx.Response | None:
    """The response to a request; None where there is no room for it."""
    response = client.post("/v1/images/generations", json=fields)
    return response if response.status_code == 200 else None


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
            posted = wait_for(lambda: accepted(client, n=IMAGES, seed=7), "room in the queue")
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


def test_images_that_are_painted_and_not_read_leave_the_queue(grey_directory: Path) -> None:
    """One client has all room, and does not read; another one gets it as soon as the images are painted."""
    limits = {"max_waiting_images": IMAGES - 64, "max_images_per_request": IMAGES, "client_share": 1}
    settings = Settings(models=(str(grey_directory),), slots=64, threads=1, **limits)
    with serve_in_process(settings) as (url, engine), not_reading(url) as (websocket, posted):
        assert len(posted) == IMAGES
        assert len(engine.jobs) == 1
        np.testing.assert_array_equal(websocket.receive_until_finished(1)[0].images(), posted)


def test_a_client_with_much_that_it_has_not_read_is_refused_and_others_are_not(grey_directory: Path) -> None:
    limits = {"max_images_per_request": IMAGES, "client_share": 0.5}
    settings = Settings(models=(str(grey_directory),), slots=64, threads=1, **limits)
    with serve_in_process(settings) as (url, engine), httpx.Client(base_url=url, timeout=PATIENCE) as client:
        # Only of finished images: the connections' buffers hold more than that.
        engine.admission.limits = replace(engine.admission.limits, max_unread_bytes=50 * IMAGES)
        with not_reading(url), httpx.Client(base_url=url, timeout=PATIENCE, transport=OTHER_ADDRESS) as other:
            wait_for(lambda: engine.admission.total.unread_bytes == 35 * IMAGES, "painted images")
            assert_refused(client.post("/v1/images/generations", json={}), 429, None, "unread_answers")
            assert other.post("/v1/images/generations", json={}).status_code == 200
        wait_until_no_jobs(engine)
        assert client.post("/v1/images/generations", json={}).status_code == 200
