"""Large answers are made while they are sent, no faster than they
are read; their size is bounded.
"""

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.model.base.inputs import InvalidInput
from scanline.model.tasks.score import Scores
from scanline.server.api.payload import answers
from scanline.server.api.payload.image_output import ImageOutput
from scanline.server.api.payload.response_schemas import (
    ImagesAnswer,
    Likelihood,
    LikelihoodsAnswer,
    Usage,
)
from tests.support.pictures import noise, painted
from tests.support.server.in_process_server import client_of_app
from tests.support.server.json_requests import MASKED
from tests.support.server.loop_lag import assert_loop_is_free
from tests.support.server.routes import GENERATIONS, LIKELIHOODS
from tests.support.small_models import config

PIECE = 10_000  # bytes
SMALL = config(channels=3)
OUTPUT = ImageOutput("png", "4x5")


def whole(pieces):
    async def collect():
        return b"".join([piece async for piece in pieces])

    return asyncio.run(collect())


@given(model=st.text(), bits=st.lists(st.floats(allow_nan=False), max_size=40))
def test_the_pieces_are_the_answer_of_the_schema(model, bits):
    fields = {
        "created": 1,
        "seed": 2,
        "temperature": 1.0,
        "guidance": 1.0,
        "usage": Usage.of(3, 9),
    }
    empty = ImagesAnswer(model=model, data=[], output_format="png", size="4x5", **fields)
    images = noise(len(bits), 5, 4)
    metadata = [{"index": index, "bits_per_dim": one} for index, one in enumerate(bits)]
    found = whole(answers.painted_chunks(empty, images, metadata, OUTPUT))
    parsed = ImagesAnswer.model_validate_json(found)
    assert parsed.model_copy(update={"data": []}) == empty
    expected = [(index, one if np.isfinite(one) else None) for index, one in enumerate(bits)]
    assert [(one.index, one.bits_per_dim) for one in parsed.data] == expected
    if bits:
        np.testing.assert_array_equal(painted(json.loads(found)), images)


@given(
    count=st.integers(1, 5), per_pixel=st.booleans(), rare=st.sampled_from([np.inf, 0.0, 1e-300])
)
def test_likelihoods_in_pieces_are_those_of_the_task(count, per_pixel, rare):
    bits = np.random.default_rng(count).random((count, SMALL.bytes))
    bits[0, 3] = rare
    scores = Scores(tuple(bits), np.zeros(count, bool), None)
    empty = LikelihoodsAnswer(created=1, model="m", typical_bits_per_dim=None, data=[])
    items = [Likelihood(index=index, bits_per_dim=bits[index].mean()) for index in range(count)]
    found = json.loads(whole(answers.scored_chunks(empty, items, scores, SMALL, per_pixel)))
    assert [one["index"] for one in found["data"]] == list(range(count))
    for one, expected in zip(found["data"], bits, strict=True):
        mean = expected.mean()
        assert one["bits_per_dim"] == (mean if np.isfinite(mean) else None)
        assert ("per_pixel" in one) == per_pixel
        if per_pixel:
            numbers = [None if not np.isfinite(value) else value for value in expected.tolist()]
            assert np.reshape(np.array(one["per_pixel"], object), -1).tolist() == numbers
            assert np.shape(one["per_pixel"]) == SMALL.image_shape


class Connection:
    """A client that takes the first parts of an answer and then, until `reads` is set, no more."""

    def __init__(self):
        self.made = 0  # pieces of the answer
        self.messages = []
        self.reads = asyncio.Event()

    async def pieces(self, count):
        for self.made in range(1, count + 1):
            yield b"a" * PIECE

    async def receive(self):
        return await asyncio.Future()  # never

    async def send(self, message):
        self.messages.append(message)
        if len(self.messages) > 2:
            await self.reads.wait()

    async def answer(self, count, timeout=60):
        request = self  # of a request, only `receive` is used
        headers = {"content-type": "text/plain"}
        last = await answers.send_answer(request, self.send, self.pieces(count), headers, timeout)
        if last is not None:
            await self.send({"type": "http.response.body", "body": last})


def test_an_answer_is_made_no_faster_than_it_is_read():
    async def act():
        connection = Connection()
        sending = asyncio.create_task(connection.answer(1000))
        while len(connection.messages) < 3 and not sending.done():
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert connection.made * PIECE < 3 * (answers.PART_BYTES + PIECE)
        connection.reads.set()
        await sending
        assert (
            b"".join(message.get("body", b"") for message in connection.messages)
            == b"a" * 1000 * PIECE
        )
        assert b"content-length" not in dict(connection.messages[0]["headers"])

    asyncio.run(act())


def test_a_small_answer_is_sent_whole_with_its_length_and_one_that_is_not_read_in_time_ends_without_its_end():
    connection = Connection()
    late = Connection()
    asyncio.run(connection.answer(3))
    start, body = connection.messages
    assert dict(start["headers"])[b"content-length"] == b"30000"
    assert body == {"type": "http.response.body", "body": b"a" * 3 * PIECE}
    asyncio.run(late.answer(1000, timeout=0.1))
    assert all(message.get("more_body", True) for message in late.messages)


def test_no_answer_holds_the_event_loop(client, websocket):
    request = {"n": 300, "seed": 3}
    webp = {"accept": "image/webp"}
    events = {**request, "stream": True, "partial_images": 1, "output_format": "webp"}
    pictures = {"image": [MASKED["image"]] * 300, "per_pixel": True}
    for url, fields, headers in (
        (GENERATIONS, request, {}),
        (GENERATIONS, request, webp),
        (GENERATIONS, events, {}),
        (LIKELIHOODS, pictures, {}),
    ):
        assert_loop_is_free(client, lambda: client.post(url, json=fields, headers=headers))  # noqa: B023
    assert_loop_is_free(client, lambda: websocket.paint(**request))


def test_bits_of_every_byte_are_given_of_a_bounded_number_of_images():
    large = config(height=32, width=32, channels=3)
    most = answers.MAX_PER_PIXEL_BYTES // large.bytes
    answers.check_per_pixel(most, large)
    with pytest.raises(InvalidInput, match=f"at most {most} images of 32x32"):
        answers.check_per_pixel(most + 1, large)
    answers.check_per_pixel(1, config(height=1024, width=1024, channels=1))


def test_a_request_for_too_many_bits_is_refused_before_its_pictures_are_decoded():
    client = client_of_app("cifar10-small", max_images_per_request=10_000)
    response = client.post(LIKELIHOODS, json={"image": [""] * 1500, "per_pixel": True})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "per_pixel")
