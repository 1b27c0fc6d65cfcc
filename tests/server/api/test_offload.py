"""Work on many bytes runs beside the event loop, work on few at once."""

import asyncio
import threading

from scanline.server.api.offload import INLINE_BYTES, run_in_thread_if_large
from tests.support.running_server import PATIENCE


def test_the_event_loop_goes_on_beside_work_on_many_bytes() -> None:
    async def act() -> bool:
        has_gone_on = threading.Event()
        asyncio.get_running_loop().call_soon(has_gone_on.set)
        return await run_in_thread_if_large(INLINE_BYTES + 1, lambda: has_gone_on.wait(PATIENCE))

    assert asyncio.run(act())


def test_work_on_few_bytes_is_done_at_once() -> None:
    async def act() -> int:
        return await run_in_thread_if_large(INLINE_BYTES, threading.get_ident)

    assert asyncio.run(act()) == threading.get_ident()
