"""Draining waits for running work and interrupts it at the timeout. No server runs here."""

import asyncio

import pytest

from scanline.server.api.middleware.draining import DrainingMiddleware
from scanline.server.runtime.lifecycle import DrainTimeoutError, Lifecycle

LONG = 3600.0  # seconds that no test waits


async def wait_until(true):
    while not true():
        await asyncio.sleep(0)


async def drained(scene, seconds=LONG):
    """Drain while `scene` runs; return whether it ended in time, and its result."""
    lifecycle = Lifecycle()
    task = asyncio.ensure_future(scene(lifecycle))
    await wait_until(lambda: lifecycle.unfinished)
    in_time = not await lifecycle.drain(seconds)
    assert not lifecycle.unfinished
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert not lifecycle.timeouts
    return in_time, ended


async def test_only_the_work_of_a_connection_is_interrupted():
    async def work(lifecycle):
        async with lifecycle.interruptible():
            await asyncio.sleep(LONG)
        raise AssertionError

    async def visit(lifecycle):
        with lifecycle.tracked():
            (ended,) = await asyncio.gather(
                asyncio.create_task(work(lifecycle)), return_exceptions=True
            )
            return type(ended).__name__

    assert await drained(visit, 0.01) == (False, "DrainTimeoutError")


async def test_a_timeout_inside_the_work_is_not_replaced():
    async def work(lifecycle):
        async with lifecycle.interruptible(), asyncio.timeout(0):
            await asyncio.sleep(LONG)

    in_time, ended = await drained(work)
    assert in_time
    assert type(ended) is TimeoutError


@pytest.mark.parametrize(
    ("content_type", "last"),
    [
        ("text/event-stream; charset=utf-8", b'"code": "shutting_down"'),
        ("image/png", b"the first part"),
    ],
)
async def test_only_an_event_stream_gets_an_error_after_its_start(content_type, last):
    sent = []

    async def send(message):
        sent.append(message)

    async def half(scope, receive, send):
        headers = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"the first part", "more_body": True})
        await asyncio.sleep(LONG)

    async def ask(lifecycle):
        await DrainingMiddleware(half, lifecycle)({"type": "http", "method": "POST"}, send, send)

    assert await drained(ask, 0.01) == (False, None)
    assert [message["type"] for message in sent].count("http.response.start") == 1
    assert last in sent[-1]["body"]


async def test_a_body_that_does_not_arrive_is_no_unfinished_work(monkeypatch):
    monkeypatch.setattr("scanline.server.runtime.lifecycle.ARRIVAL_SECONDS", 0.0)

    async def work(lifecycle, arrives):
        async with lifecycle.interruptible(is_arriving=True) as accept:
            await lifecycle.draining.wait()
            if arrives:
                accept()
            await asyncio.sleep(0.01)
            return "done"

    assert await drained(lambda lifecycle: work(lifecycle, True)) == (True, "done")
    in_time, ended = await drained(lambda lifecycle: work(lifecycle, False))
    assert in_time
    assert isinstance(ended, DrainTimeoutError)
