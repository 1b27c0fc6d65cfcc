"""Event streams whose client reads slowly or disconnects."""

from collections import Counter

import httpx
import numpy as np

from scanline.server.engine.local.engine_client import EngineClient
from tests.support.pictures import painted
from tests.support.server.running_server import PATIENCE
from tests.support.server.sse_reader import images, named, read, slow_stream

IMAGES = 1000
URL = "/v1/images/generations"
Served = tuple[str, EngineClient]


def test_a_slow_reader_delays_no_other_client_and_misses_no_image(in_process_server: Served) -> None:
    url, _ = in_process_server
    with slow_stream(url, n=IMAGES, seed=7) as response, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        posted = painted(client.post(URL, json={"n": IMAGES, "seed": 7}).json())
        events = read(response.iter_lines())
    np.testing.assert_array_equal(images(events), posted)
    # and no partial images of finished images
    parts = Counter(event["index"] for event in named(events, "partial_image"))
    assert not any(parts[index] for index in range(IMAGES - 300, IMAGES))
