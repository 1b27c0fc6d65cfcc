"""Work on many bytes runs beside the event loop, work on few at once."""

import asyncio
import threading

from server.api.beside import AT_ONCE, beside
from tests.server.running import PATIENCE


def test_the_event_loop_goes_on_beside_work_on_many_bytes() -> None:
    async def act() -> bool:
        has_gone_on = threading.Event()
        asyncio.get_running_loop().call_soon(has_gone_on.set)
        return await beside(AT_ONCE + 1, lambda: has_gone_on.wait(PATIENCE))

    assert asyncio.run(act())


def test_work_on_few_bytes_is_done_at_once() -> None:
    async def act() -> int:
        return await beside(AT_ONCE, threading.get_ident)

    assert asyncio.run(act()) == threading.get_ident()
