"""The event loop's own time for a request or a websocket's message, charged
as overhead whatever was asked for.

A coroutine is driven step by step, and what its steps take between two suspensions is
summed up: in processor time of the loop's thread, since by a clock a client would pay for
others on a busy machine. Knows no HTTP.
"""

from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import thread_time
from types import coroutine
from typing import Any, TypeVar

from scanline.server.api.base.rate_limit import BYTES_PER_UNIT, UNIT_SECONDS

Result = TypeVar("Result")

# of a request or message, and of each image in its answer, besides what its bytes may take
FREE_SECONDS = 0.002


@dataclass(eq=False)
class LoopTime:
    """What one request or message has taken of the event loop's time; `charge` is called with the
    units that it costs beyond what is free."""

    charge: Callable[[float], None]
    size: int = 0  # bytes received and sent
    images: int = 0  # in its answer
    seconds: float = 0.0
    charged: float = 0.0  # units
    is_paused: bool = False
    began: float = 0.0  # of the current step

    def begin_step(self) -> None:
        self.began = thread_time()

    def end_step(self) -> None:
        """Count the current step so far. Charge at once, since a request may last for minutes; give
        back what later turns out to have been for images."""
        if self.is_paused:
            return
        self.seconds += thread_time() - self.began
        beyond = self.seconds - FREE_SECONDS * (1 + self.images)
        units = max(0.0, beyond / UNIT_SECONDS - self.size / BYTES_PER_UNIT)
        if units != self.charged:
            self.charge(units - self.charged)
            self.charged = units

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing in the context: it is work that is shared or measured elsewhere."""
        self.end_step()
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False
            self.begin_step()


CURRENT: ContextVar[LoopTime | None] = ContextVar("loop_time", default=None)


def current() -> LoopTime:
    """Return that of the current task's request or message."""
    return CURRENT.get() or LoopTime(lambda units: None)


async def measured(work: Awaitable[Result], loop_time: LoopTime) -> Result:
    """Return the result of `work`, whose time on the event loop is counted."""
    token = CURRENT.set(loop_time)
    try:
        return await _driven(work.__await__(), loop_time)
    finally:
        CURRENT.reset(token)


@coroutine
def _driven(work: Generator[Any, Any, Result], loop_time: LoopTime) -> Generator[Any, Any, Result]:
    """Pass on what `work` waits for and what it is resumed with, as `await` does."""
    resume: Callable[[], Any] = partial(work.send, None)
    while True:
        loop_time.begin_step()
        try:
            awaited = resume()
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            loop_time.end_step()
        try:
            sent = yield awaited
        except BaseException as raised:
            resume = partial(work.throw, raised)
        else:
            resume = partial(work.send, sent)
