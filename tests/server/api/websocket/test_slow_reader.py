"""A reader who does not read: nobody waits for it, and what it missed is merged."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.in_process_server import inside
from tests.support.patience import PATIENCE, wait_for
from tests.support.pictures import painted
from tests.support.websocket_client import DEAF, Painter, Told, connected

IMAGES = 1000


@pytest.fixture(scope="module")
def served(grey_directory: Path) -> Iterator[tuple[str, EngineClient]]:
    settings = Settings(models=(str(grey_directory),), slots=64, threads=2, max_images_per_request=IMAGES)
    with inside(settings) as served:
        yield served


@contextmanager
def asleep(url: str) -> Iterator[tuple[Painter, np.ndarray]]:
    """A reader who sleeps while another client is given as many images, asked for later; and those.

    The two take turns, so that by then all of the first are painted too.
    """
    with socket.socket() as narrow, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect((client.base_url.host, client.base_url.port))
        with connected(url, sock=narrow, **DEAF) as sleeper:
            sleeper.send(type="generate", n=IMAGES, seed=7)
            sleeper.hear()
            posted = client.post("/v1/images/generations", json={"n": IMAGES, "seed": 7})
            yield sleeper, painted(posted.json()).reshape(IMAGES, 35)


@pytest.fixture(scope="module")
def missed(served: tuple[str, EngineClient]) -> tuple[Told, np.ndarray]:
    """What a slow reader hears when it wakes, and what the other client was given."""
    with asleep(served[0]) as (sleeper, posted):
        return sleeper.hear_ends(1)[0], posted


def test_a_slow_reader_delays_nobody_and_misses_nothing(missed: tuple[Told, np.ndarray]) -> None:
    told, posted = missed
    np.testing.assert_array_equal(told.images(), posted)


def test_what_a_slow_reader_has_not_read_is_merged(missed: tuple[Told, np.ndarray]) -> None:
    """A tick paints at most 32 of 35 bytes: an image in one frame has waited."""
    told, _ = missed
    frames = Counter(index for index, _, _ in told.frames)
    assert {frames[index] for index in range(IMAGES - 300, IMAGES)} == {1}


def test_a_slow_reader_who_leaves_is_forgotten(served: tuple[str, EngineClient]) -> None:
    url, engine = served
    with asleep(url) as (sleeper, _):
        assert engine.reserved_images == IMAGES
        sleeper.socket.socket.close()
        wait_for(lambda: not engine.reserved_images, "an engine with nothing in work")
    assert engine.jobs == {}
