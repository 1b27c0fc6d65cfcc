"""Server-sent events whose reader does not read, leaves, or outlives its request."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest

from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.in_process_server import fail_all, inside
from tests.support.patience import PATIENCE, wait_for
from tests.support.pictures import painted
from tests.support.sse_reader import Event, images, named, read

IMAGES = 1000
MANY = 100_000  # images: minutes of work
URL = "/v1/images/generations"
Served = tuple[str, EngineClient]


@pytest.fixture(scope="module")
def served(grey_directory: Path) -> Iterator[Served]:
    settings = Settings(
        models=(str(grey_directory),),
        slots=64,
        threads=2,
        max_images_per_request=MANY,
        max_waiting_images=2 * MANY,
    )
    with inside(settings) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served[0], timeout=PATIENCE) as client:
        yield client


@contextmanager
def streaming(url: str, **fields: object) -> Iterator[httpx.Response]:
    """A streamed answer of which the head has come; its connection takes little that is not read."""
    narrow = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)])
    with httpx.Client(base_url=url, timeout=PATIENCE, transport=narrow) as client:
        request = {"stream": True, "partial_images": 3, **fields}
        with client.stream("POST", URL, json=request) as response:
            yield response


def wait_until_forgotten(engine: EngineClient) -> None:
    wait_for(lambda: not engine.reserved_images and not engine.jobs, "an engine with nothing in work")


@pytest.fixture(scope="module")
def missed(served: Served) -> tuple[list[Event], np.ndarray]:
    """What a slow reader hears when it wakes, and what another client was given while it slept."""
    url, _ = served
    with streaming(url, n=IMAGES, seed=7) as response, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        posted = client.post(URL, json={"n": IMAGES, "seed": 7}).json()
        return read(response.iter_lines()), painted(posted)


def test_a_slow_reader_delays_nobody_and_misses_no_image(missed: tuple[list[Event], np.ndarray]) -> None:
    events, posted = missed
    np.testing.assert_array_equal(images(events), posted)


def test_a_slow_reader_is_told_of_each_image_once(missed: tuple[list[Event], np.ndarray]) -> None:
    assert [event["index"] for event in named(missed[0], "completed")] == list(range(IMAGES))


def test_a_slow_reader_is_spared_the_parts_of_what_is_done(missed: tuple[list[Event], np.ndarray]) -> None:
    parts = Counter(event["index"] for event in named(missed[0], "partial_image"))
    assert not any(parts[index] for index in range(IMAGES - 300, IMAGES))


def test_a_reader_who_leaves_is_forgotten(served: Served, client: httpx.Client) -> None:
    with streaming(served[0], n=MANY) as response:
        next(response.iter_lines())
    wait_until_forgotten(served[1])


def test_a_reader_who_leaves_without_having_read_is_forgotten(served: Served, client: httpx.Client) -> None:
    with streaming(served[0], n=IMAGES):
        client.post(URL, json={"n": IMAGES})
        assert served[1].reserved_images == IMAGES
    wait_until_forgotten(served[1])


def test_a_reader_who_waits_in_the_queue_and_leaves_is_forgotten(served: Served, client: httpx.Client) -> None:
    with streaming(served[0], n=MANY, partial_images=0):
        pass
    wait_until_forgotten(served[1])


def test_an_official_client_that_closes_its_stream_is_forgotten(served: Served, client: httpx.Client) -> None:
    with openai.OpenAI(base_url=f"{served[0]}/v1", api_key="none", max_retries=0) as official:
        with official.images.generate(prompt="", n=MANY, stream=True) as stream:
            next(iter(stream))
        wait_until_forgotten(served[1])


def test_a_stream_that_ended_is_forgotten(served: Served, client: httpx.Client) -> None:
    client.post(URL, json={"stream": True, "partial_images": 3, "n": 10})
    wait_until_forgotten(served[1])


def test_what_fails_while_it_is_streamed_ends_with_an_error_event(served: Served) -> None:
    with streaming(served[0], n=MANY) as response:
        fail_all(served[1])
        last = read(response.iter_lines())[-1]
    error = {"message": "It broke.", "type": "server_error", "param": None, "code": "engine_failed"}
    assert last == {"error": error}


def test_the_official_client_raises_what_fails_while_it_is_streamed(served: Served) -> None:
    with openai.OpenAI(base_url=f"{served[0]}/v1", api_key="none", max_retries=0) as official:
        stream = official.images.generate(prompt="", n=MANY, stream=True)
        next(iter(stream))
        fail_all(served[1])
        with pytest.raises(openai.APIError) as caught:
            list(stream)
    assert (caught.value.message, caught.value.type, caught.value.code) == (
        "It broke.",
        "server_error",
        "engine_failed",
    )
