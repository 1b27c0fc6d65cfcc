"""Event streams whose client reads slowly, disconnects, or sees its request fail."""

from collections import Counter

import httpx
import numpy as np
import openai
import pytest

from scanline.server.engine.local.engine_client import EngineClient
from tests.support.pictures import painted
from tests.support.server.in_process_server import fail_all_jobs, wait_until_no_jobs
from tests.support.server.running_server import PATIENCE
from tests.support.server.shared_servers import LONG
from tests.support.server.sse_reader import Event, images, named, read, slow_stream

IMAGES = 1000
URL = "/v1/images/generations"
Served = tuple[str, EngineClient]


@pytest.fixture(scope="module")
def missed(in_process_server: Served) -> tuple[list[Event], np.ndarray]:
    """The events that a slow reader gets in the end, and the images that another client got meanwhile."""
    url, _ = in_process_server
    with slow_stream(url, n=IMAGES, seed=7) as response, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        posted = client.post(URL, json={"n": IMAGES, "seed": 7}).json()
        return read(response.iter_lines()), painted(posted)


def test_a_slow_reader_delays_no_other_client_and_misses_no_image(missed: tuple[list[Event], np.ndarray]) -> None:
    events, posted = missed
    np.testing.assert_array_equal(images(events), posted)
    assert [event["index"] for event in named(events, "completed")] == list(range(IMAGES))
    # and no partial images of finished images
    parts = Counter(event["index"] for event in named(events, "partial_image"))
    assert not any(parts[index] for index in range(IMAGES - 300, IMAGES))


def test_a_reader_that_disconnects_without_having_read_leaves_no_job(in_process_server: Served) -> None:
    url, engine = in_process_server
    with slow_stream(url, n=IMAGES), httpx.Client(base_url=url, timeout=PATIENCE) as client:
        client.post(URL, json={"n": IMAGES})
        assert (engine.reserved_images, engine.admission.total.unread_bytes) == (0, IMAGES * 35)
    wait_until_no_jobs(engine)


def test_an_official_client_that_closes_its_stream_leaves_no_job(in_process_server: Served) -> None:
    url, engine = in_process_server
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as official:
        with official.images.generate(prompt="", n=LONG, stream=True) as stream:
            next(iter(stream))
        wait_until_no_jobs(engine)


def test_a_stream_that_fails_ends_with_an_error_event(in_process_server: Served) -> None:
    with slow_stream(in_process_server[0], n=LONG) as response:
        fail_all_jobs(in_process_server[1])
        last = read(response.iter_lines())[-1]
    error = {"message": "It broke.", "type": "server_error", "param": None, "code": "engine_failed"}
    assert last == {"error": error}


def test_the_official_client_raises_the_error_of_a_stream_that_fails(in_process_server: Served) -> None:
    with openai.OpenAI(base_url=f"{in_process_server[0]}/v1", api_key="none", max_retries=0) as official:
        stream = official.images.generate(prompt="", n=LONG, stream=True)
        next(iter(stream))
        fail_all_jobs(in_process_server[1])
        with pytest.raises(openai.APIError) as caught:
            list(stream)
    error = caught.value
    assert (error.message, error.type, error.code) == ("It broke.", "server_error", "engine_failed")
