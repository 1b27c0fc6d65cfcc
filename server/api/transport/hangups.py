"""Detection of clients that have closed their connection, also while nothing is read from it.

An event loop sees the end of a connection only by reading. While reading is
paused, a departure would stay unseen.
"""

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress

MAX_EVENTS = 256  # per turn of the event loop


class HangupWatch:
    """One epoll object for all connections, itself watched by the event loop.
    Without epoll it reports nothing.
    """

    def __init__(self) -> None:
        self.epoll = select.epoll() if hasattr(select, "epoll") else None
        self.callbacks: dict[int, Callable[[], None]] = {}  # by file descriptor

    def add(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, callback: Callable[[], None]
    ) -> None:
        """Call `callback` once when the peer has closed its side of the
        connection, or the connection has failed.
        """
        if self.epoll is None or descriptor < 0:
            return
        if not self.callbacks:
            loop.add_reader(self.epoll.fileno(), self._report)
        with suppress(OSError):  # the connection has failed already: reading says so
            self.epoll.register(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
            self.callbacks[descriptor] = callback

    def remove(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        """Forget a connection; to be called before another one can have the same descriptor."""
        if self.epoll is None or self.callbacks.pop(descriptor, None) is None:
            return
        with suppress(OSError):  # it is closed already
            self.epoll.unregister(descriptor)
        if not self.callbacks:
            loop.remove_reader(self.epoll.fileno())

    def _report(self) -> None:
        assert self.epoll is not None
        for descriptor, _ in self.epoll.poll(0, MAX_EVENTS):
            if (callback := self.callbacks.get(descriptor)) is not None:
                callback()
