"""Server-sent events: their fields, partial images, comments while nothing is painted, and clients that read slowly."""

import asyncio
from collections import Counter

import httpx
import numpy as np
import pytest
from starlette.types import Message

from scanline.model.sampling.messages import GenerateRequest, Pixels
from scanline.model.tasks.paint import PaintTask
from scanline.server.api.payload import sse
from scanline.server.api.payload.partial_images import UNPAINTED, PartialImages
from scanline.server.api.payload.sse import send_with_pings
from scanline.server.engine.local.engine_client import EngineClient
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import HOLE, MASKED, post
from tests.support.server.routes import EDITS, GENERATIONS
from tests.support.server.running_server import PATIENCE
from tests.support.server.sse_reader import images, named, post_for_events, read, slow_stream
from tests.support.tiny import GREY

GREYS = noise(2, 7, 5)
EDIT = {"image": [text(encode(image)) for image in GREYS], "mask": MASKED["mask"], "n": 3, "seed": 4}
FACTS = ("class", "bits_per_dim", "evidence_bits", "effective_particles")
COMMON = {"type", "b64_json", "created_at", "size", "output_format", "background", "quality", "index", "seed"}


def test_each_image_has_the_requested_partial_images(client: httpx.Client) -> None:
    for wanted in (1, 2, 3):
        events = post_for_events(client, GENERATIONS, n=20, partial_images=wanted)
        parts = [(event["index"], event["partial_image_index"]) for event in named(events, "partial_image")]
        assert parts == [(index, number) for index in range(20) for number in range(wanted)]
        assert {event["index"]: event["type"] for event in events} == dict.fromkeys(
            range(20), "image_generation.completed"
        )
    for fields in ({}, {"partial_images": 0}, {"partial_images": None}):
        (event,) = post_for_events(client, GENERATIONS, **fields)
        assert event["type"] == "image_generation.completed"


def test_a_partial_image_is_the_image_so_far_in_whole_pixels(client: httpx.Client, colour_client: httpx.Client) -> None:
    events = post_for_events(client, GENERATIONS, n=9, partial_images=3)
    whole = images(events).reshape(9, 1, 35)
    parts = np.where(np.arange(35) < np.array([[8], [17], [26]]), whole, UNPAINTED)
    np.testing.assert_array_equal(images(events, "partial_image").reshape(9, 3, 35), parts)
    events = post_for_events(colour_client, GENERATIONS, n=9, partial_images=2)
    whole = images(events).reshape(9, 1, 12, 3)
    parts = np.where(np.arange(12)[:, None] < np.array([4, 8])[:, None, None], whole, UNPAINTED)
    np.testing.assert_array_equal(images(events, "partial_image").reshape(9, 2, 12, 3), parts)


def test_partial_completions_are_evenly_spaced_over_the_hidden_pixels_and_have_all_known_ones(
    client: httpx.Client,
) -> None:
    """Each has the known pixels of its own image."""
    hidden = np.flatnonzero(HOLE.reshape(-1) == 0)  # of which the partial images have so many
    for painted_ones in ([3], [1, 3, 4]):
        events = post_for_events(client, EDITS, **EDIT, partial_images=len(painted_ones), particles=1)
        assert {event["type"] for event in events} == {"image_edit.partial_image", "image_edit.completed"}
        expected = images(events).reshape(6, 1, 35).repeat(len(painted_ones), axis=1)
        for number, count in enumerate(painted_ones):
            expected[:, number, hidden[count:]] = UNPAINTED
        np.testing.assert_array_equal(images(events, "partial_image").reshape(expected.shape), expected)
    one_hidden = HOLE | (np.arange(35).reshape(7, 5) != hidden[0]).astype(np.uint8) * 255
    events = post_for_events(client, EDITS, **{**EDIT, "mask": text(encode(one_hidden))}, partial_images=3)
    assert {event["type"] for event in events} == {"image_edit.completed"}


def test_an_event_has_the_official_fields_and_ours(client: httpx.Client) -> None:
    part, event = post_for_events(client, GENERATIONS, seed=7, output_format="webp", partial_images=1)
    assert set(part) == COMMON | {"partial_image_index"}
    assert set(event) == COMMON | {*FACTS, "usage", "temperature", "guidance"}
    found = {key: event[key] for key in ("size", "output_format", "background", "quality", "index", "seed")}
    assert list(found.values()) == ["5x7", "webp", "opaque", "auto", 0, 7]


def test_the_usages_of_streamed_completions_are_those_of_a_plain_response(client: httpx.Client) -> None:
    events, answer = post_for_events(client, EDITS, **EDIT), post(client, EDITS, **EDIT)
    usages, whole = [event["usage"] for event in named(events, "completed")], answer["usage"]
    for part in ("input_tokens", "output_tokens", "total_tokens"):
        assert sum(usage[part] for usage in usages) == whole[part]


def test_the_headers_have_the_drawn_seed_and_forbid_buffering(client: httpx.Client) -> None:
    response = client.post(GENERATIONS, json={"stream": True, "n": 3, "partial_images": 1})
    seeds = {str(event["seed"]) for event in read(response.iter_lines())}
    assert seeds == {response.headers["x-scanline-seed"]}
    headers = client.post(GENERATIONS, json={"stream": True}, headers={"accept-encoding": "gzip"}).headers
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-cache", "no")
    assert "content-encoding" not in headers


def test_an_image_media_type_cannot_be_streamed_and_any_other_can(client: httpx.Client) -> None:
    for accept in ("image/png", "image/*", "application/x-npy"):
        response = client.post(GENERATIONS, json={"stream": True}, headers={"accept": accept})
        assert_refused(response, 400, "stream", "invalid_value")
    for accept in ("text/event-stream", "application/json", "*/*"):
        response = client.post(GENERATIONS, json={"stream": True}, headers={"accept": accept})
        assert response.headers["content-type"].startswith("text/event-stream")
    broken = client.post(EDITS, json={"image": text(b"seven"), "keep_rows": 3, "stream": True})
    assert_refused(broken, 400, "image", "invalid_image")


IMAGE = bytes(range(35))


def test_a_slow_reader_gets_the_newest_of_unfinished_images() -> None:
    def numbers(*painted: int) -> list[int]:
        """Those that are due when so many bytes have been painted; after the first time, the reader is late."""
        task = PaintTask(GenerateRequest(0, 1, seed=0), GREY)
        partials = PartialImages(task, 3)
        for upto in painted:
            first = int(task.painted[0])
            task.receive(Pixels(0, [(0, first, IMAGE[first:upto])]))
            if upto == painted[0]:
                partials.merge()
        return [number for number, _, _ in partials.due(0)]

    assert numbers(20) == [1]
    assert numbers(20, 30) == [1, 2]
    assert numbers(35) == []


MESSAGE: Message = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}


class Connection:
    """Records what was sent; a message is sent once `open` is set."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.open = asyncio.Event()

    async def send(self, message: Message) -> None:
        await self.open.wait()
        self.sent.append(message)


def test_a_slow_reader_is_not_pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ping falls due while a message waits to be read; it is not sent after the message. No time passes here."""
    now, sleep = 0.0, asyncio.sleep

    async def advance_clock(seconds: float) -> None:
        nonlocal now
        now += seconds
        await sleep(0)

    async def sent() -> list[Message]:
        connection = Connection()
        async with send_with_pings(connection.send, 1.0) as send:
            sending = asyncio.create_task(send(MESSAGE))
            while now < 1.0:
                await sleep(0)
            connection.open.set()
            await sending
            found = connection.sent.copy()
        assert len(asyncio.all_tasks()) == 1  # no task is left to ping
        return found

    monkeypatch.setattr(sse, "monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", advance_clock)
    assert asyncio.run(sent()) == [MESSAGE]


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
