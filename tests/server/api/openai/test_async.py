"""The asynchronous official OpenAI client gets the same responses, also to many concurrent requests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import openai

from tests.support.openai_clients import async_official, official, pictures
from tests.support.pictures import encode, noise
from tests.support.running_server import Server

IMAGE = noise(7, 5)
KEPT = {"keep_rows": 4, "seed": 7}


def call_async(server: Server, call: Callable[[openai.AsyncOpenAI], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with async_official(server.url) as client:
            return await call(client)

    return asyncio.run(run())


def test_models_are_listed(server: Server) -> None:
    async def ids(client: openai.AsyncOpenAI) -> list[str]:
        return [model.id async for model in client.models.list()]

    assert call_async(server, ids) == ["grey"]


def test_a_model_is_retrieved(server: Server) -> None:
    assert call_async(server, lambda client: client.models.retrieve("grey")).channels == 1


def test_images_equal_those_of_the_synchronous_client(server: Server) -> None:
    fields = {"prompt": "", "n": 3, "extra_body": {"seed": 7}}
    with official(server.url) as client:
        assert (
            call_async(server, lambda other: other.images.generate(**fields)).data
            == client.images.generate(**fields).data
        )


def test_a_list_of_images_is_edited(server: Server) -> None:
    answer = call_async(server, lambda client: client.images.edit(image=[encode(IMAGE)], prompt="", extra_body=KEPT))
    np.testing.assert_array_equal(pictures(answer)[0, :4], IMAGE[:4])


def test_concurrent_requests_each_get_the_images_of_their_seed(server: Server) -> None:
    async def seeds(client: openai.AsyncOpenAI, order: list[int]) -> list[list[str]]:
        calls = [client.images.generate(prompt="", n=2, extra_body={"seed": seed}) for seed in order]
        return [[one.b64_json for one in answer.data] for answer in await asyncio.gather(*calls)]

    order = list(range(40))
    together = call_async(server, lambda client: seeds(client, order))
    assert call_async(server, lambda client: seeds(client, order[::-1])) == together[::-1]


def test_a_raw_response_has_headers_and_the_answer(server: Server) -> None:
    async def parsed(client: openai.AsyncOpenAI) -> tuple[str, int]:
        raw = await client.images.with_raw_response.generate(prompt="", extra_body={"seed": 7})
        return raw.headers["x-scanline-seed"], raw.parse().seed

    assert call_async(server, parsed) == ("7", 7)
