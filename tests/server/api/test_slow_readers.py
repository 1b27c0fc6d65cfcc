"""Clients that read events or a websocket slowly: they delay no other client, and
what they have not read is merged.
"""

import asyncio
import socket
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import httpx
from numpy.testing import assert_array_equal

from scanline.model.sampling.base.messages import GenerateRequest, Pixels
from scanline.model.tasks.paint import PaintTask
from scanline.server.api.payload import sse
from scanline.server.api.payload.partial_images import PartialImages
from scanline.server.api.payload.sse import send_with_pings
from scanline.server.settings import Settings
from tests.support.pictures import painted
from tests.support.server.error_answers import assert_refused
from tests.support.server.in_process_server import serve_in_process, wait_until_no_jobs
from tests.support.server.json_requests import generate
from tests.support.server.routes import GENERATIONS
from tests.support.server.sse_reader import images, named, read, slow_stream
from tests.support.server.websocket_client import NOT_READING, connected
from tests.support.small_models import GREY
from tests.support.waiting import PATIENCE, wait_for

IMAGES = 1000
OTHER_ADDRESS = httpx.HTTPTransport(local_address="127.0.0.2")


def test_a_slow_reader_gets_the_newest_of_unfinished_images():
    def numbers(*painted):
        """Those that are due when so many bytes have been painted; after
        the first time, the reader is late.
        """
        task = PaintTask(GenerateRequest(0, 1, seed=0), GREY)
        partials = PartialImages(task, 3)
        for upto in painted:
            first = int(task.painted[0])
            task.receive(Pixels(0, [(0, first, bytes(range(first, upto)))]))
            if upto == painted[0]:
                partials.merge()
        return [number for number, _, _ in partials.due(0)]

    assert numbers(20) == [1]
    assert numbers(20, 30) == [1, 2]
    assert numbers(35) == []


MESSAGE = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}


def test_a_slow_reader_is_not_pinged(monkeypatch):
    """A ping falls due while a message waits to be read; it is not sent after
    the message. No time passes here.
    """
    now = 0.0
    sleep = asyncio.sleep

    async def advance_clock(seconds):
        nonlocal now
        now += seconds
        await sleep(0)

    async def sent():
        found = []
        reads = asyncio.Event()

        async def send_once_read(message):
            await reads.wait()
            found.append(message)

        async with send_with_pings(send_once_read, 1.0) as send:
            sending = asyncio.create_task(send(MESSAGE))
            while now < 1.0:
                await sleep(0)
            reads.set()
            await sending
            before = found.copy()
        assert len(asyncio.all_tasks()) == 1  # no task is left to ping
        return before

    monkeypatch.setattr(sse, "monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", advance_clock)
    assert asyncio.run(sent()) == [MESSAGE]


def test_a_slow_reader_of_events_delays_no_other_client_and_misses_no_image(in_process_server):
    url, _ = in_process_server
    with (
        slow_stream(url, n=IMAGES, seed=7) as response,
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        posted = painted(generate(client, n=IMAGES, seed=7))
        events = read(response.iter_lines())
    assert_array_equal(images(events), posted)
    # and no partial images of finished images
    parts = Counter(event["index"] for event in named(events, "partial_image"))
    assert not any(parts[index] for index in range(IMAGES - 300, IMAGES))


def accepted(client):
    """The response to a request for IMAGES; None where there is no room for it."""
    response = client.post(GENERATIONS, json={"n": IMAGES, "seed": 7})
    return response if response.status_code == 200 else None


@contextmanager
def not_reading(url):
    """A websocket whose job has been painted without being read, and the images of
    another client. The other client requests as many images later; the two take turns, so
    that both jobs are painted by then."""
    with socket.socket() as narrow, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect((client.base_url.host, client.base_url.port))
        with connected(url, sock=narrow, **NOT_READING) as websocket:
            websocket.send(type="generate", n=IMAGES, seed=7)
            websocket.receive()
            yield (
                websocket,
                painted(wait_for(lambda: accepted(client), "room in the queue").json()).reshape(
                    IMAGES, 35
                ),
            )


def test_frames_that_a_client_has_not_read_are_merged(in_process_server):
    with not_reading(in_process_server[0]) as (websocket, posted):
        received = websocket.receive_until_finished(1)[0]
    assert_array_equal(received.images(), posted)
    # a tick paints at most 32 of 35 bytes: an image in one frame was merged
    frames = Counter(index for index, _, _ in received.frames)
    assert {frames[index] for index in range(IMAGES - 300, IMAGES)} == {1}


def test_a_client_with_much_that_it_has_not_read_is_refused_and_others_are_not(grey_directory):
    limits = {"max_images_per_request": IMAGES, "client_share": 0.5}
    settings = Settings(models=(str(grey_directory),), slots=64, threads=1, **limits)
    with (
        serve_in_process(settings) as (url, engine),
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        # Only of finished images: the connections' buffers hold more than that.
        engine.admission.limits = replace(engine.admission.limits, max_unread_bytes=50 * IMAGES)
        with (
            not_reading(url),
            httpx.Client(base_url=url, timeout=PATIENCE, transport=OTHER_ADDRESS) as other,
        ):
            wait_for(lambda: engine.admission.total.unread_bytes == 35 * IMAGES, "painted images")
            assert_refused(client.post(GENERATIONS, json={}), 429, None, "unread_answers")
            generate(other)
        wait_until_no_jobs(engine)
        generate(client)
