"""Work on many bytes runs in one other thread, work on few bytes on the event loop, both in pieces of milliseconds."""

import asyncio
import threading
import time
from collections.abc import Iterator

from scanline.server.api.payload import offload
from scanline.server.api.payload.offload import CHUNK_SECONDS, INLINE_BYTES
from tests.support.server.running_server import PATIENCE


def test_the_event_loop_runs_during_work_on_many_bytes() -> None:
    async def act() -> list[bool]:
        has_gone_on = threading.Event()
        asyncio.get_running_loop().call_soon(has_gone_on.set)
        return await offload.collect((has_gone_on.wait(PATIENCE) for _ in range(1)), INLINE_BYTES + 1)

    assert asyncio.run(act()) == [True]


def test_work_on_few_bytes_begins_on_the_event_loop_and_goes_on_in_the_thread() -> None:
    def steps() -> Iterator[int]:
        yield threading.get_ident()
        time.sleep(2 * CHUNK_SECONDS)
        yield threading.get_ident()
        yield threading.get_ident()

    first, second, third = asyncio.run(offload.collect(steps(), INLINE_BYTES))
    assert first == second == threading.get_ident() != third


def test_a_request_waits_only_for_pieces_of_another() -> None:
    """Each takes turns in the thread, so a short one ends long before a long one that came first."""
    done: list[int] = []

    def long() -> Iterator[None]:
        for step in range(200):
            time.sleep(CHUNK_SECONDS)
            done.append(step)
            yield

    async def act() -> int:
        task = asyncio.create_task(offload.collect(long(), INLINE_BYTES + 1))
        while not done:
            await asyncio.sleep(0)
        await offload.run(lambda: None)
        assert not task.done()
        task.cancel()
        return len(done)

    assert asyncio.run(act()) < 20


def test_the_client_with_the_least_time_is_next_and_cancelled_work_is_not_begun() -> None:
    thread, begun, may_end = offload.FairThread("fair"), threading.Event(), threading.Event()
    done: list[str] = []
    thread.submit("busy", lambda: (begun.set(), may_end.wait(PATIENCE)))
    assert begun.wait(PATIENCE)
    waiting = [thread.submit("busy", lambda: done.append("busy")) for _ in range(3)]
    assert thread.submit("busy", lambda: done.append("cancelled")).cancel()
    waiting.append(thread.submit("other", lambda: done.append("other")))
    may_end.set()
    for future in waiting:
        future.result(PATIENCE)
    assert done == ["other", "busy", "busy", "busy"]
