"""Streams as the official OpenAI client reads them, unchanged but for its base_url."""

import asyncio
from collections.abc import Iterator

import numpy as np
import openai
import pytest
from openai.types import (
    ImageEditCompletedEvent,
    ImageEditPartialImageEvent,
    ImageGenCompletedEvent,
    ImageGenPartialImageEvent,
)

from scanline.server.api.payload.partial_images import UNPAINTED
from tests.support.pictures import encode, noise
from tests.support.server.openai_clients import async_official, picture
from tests.support.server.openai_clients import official as connect
from tests.support.server.running_server import Server

IMAGE = noise(7, 5)


@pytest.fixture
def official(server: Server) -> Iterator[openai.OpenAI]:
    with connect(server.url) as client:
        yield client


def test_a_generation_is_streamed(official: openai.OpenAI) -> None:
    events = list(official.images.generate(prompt="", stream=True, partial_images=2))
    assert [type(event) for event in events] == [ImageGenPartialImageEvent] * 2 + [ImageGenCompletedEvent]
    assert [event.partial_image_index for event in events[:2]] == [0, 1]
    for event in events:
        type(event).model_validate(event.model_dump(), strict=True)


def test_an_edit_is_streamed(official: openai.OpenAI) -> None:
    fields = {"image": encode(IMAGE), "prompt": "", "extra_body": {"keep_rows": 3}}
    *parts, last = official.images.edit(**fields, stream=True, partial_images=3)
    assert [type(event) for event in (*parts, last)] == [ImageEditPartialImageEvent] * 3 + [ImageEditCompletedEvent]
    assert (last.usage.input_tokens, last.usage.output_tokens, last.usage.total_tokens) == (15, 20, 35)


def test_streamed_images_equal_those_of_a_plain_response(official: openai.OpenAI) -> None:
    whole = official.images.generate(prompt="", n=4, extra_body={"seed": 7})
    stream = official.images.generate(prompt="", n=4, stream=True, extra_body={"seed": 7})
    assert {event.index: event.b64_json for event in stream} == {one.index: one.b64_json for one in whole.data}


@pytest.mark.parametrize("wanted", [0, 1, 2, 3])
def test_partial_images_are_the_image_so_far_evenly_spaced(official: openai.OpenAI, wanted: int) -> None:
    events = list(official.images.generate(prompt="", stream=True, partial_images=wanted, extra_body={"seed": 7}))
    *parts, whole = [picture(event.b64_json).reshape(35) for event in events]
    for number, part in enumerate(parts, 1):
        painted = np.arange(35) < 35 * number // (wanted + 1)
        np.testing.assert_array_equal(part, np.where(painted, whole, UNPAINTED))
    assert len(parts) == wanted


def test_the_asynchronous_client_reads_a_stream(server: Server) -> None:
    async def last() -> np.ndarray:
        async with async_official(server.url) as client:
            options = {"prompt": "", "stream": True, "partial_images": 1, "extra_body": {"keep_rows": 3}}
            stream = await client.images.edit(image=encode(IMAGE), **options)
            return [picture(event.b64_json) async for event in stream][-1]

    np.testing.assert_array_equal(asyncio.run(last())[:3], IMAGE[:3])
