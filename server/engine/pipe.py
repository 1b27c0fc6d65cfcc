"""One end of the pipe to another process of this server, on an event loop: nothing
that is sent waits for the other side.

One thread reads the pipe and one writes it; what arrives is handled on
the loop. Messages cross it in lists.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

JOIN_SECONDS = 10.0  # that a thread may take to notice that the other end is closed


class Pipe:
    """`receive` gets each list of messages, on the loop that runs now; `closed` is set when the
    other end is closed. name: prefix of the threads' names."""

    def __init__(
        self, connection: Connection, receive: Callable[[list[Any]], None], name: str
    ) -> None:
        self.connection = connection
        self.receive = receive
        self.loop = asyncio.get_running_loop()
        self.closed = asyncio.Event()
        # or its start; the reader keeps it, even while the loop is held up
        self.last_received = time.monotonic()
        self.unsent: list[Any] = []
        self.outbox: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        targets = {f"{name}-reader": self._read, f"{name}-writer": self._write}
        self.threads = [
            threading.Thread(target=targets[name], name=name, daemon=True) for name in targets
        ]
        for thread in self.threads:
            thread.start()

    @property
    def silence(self) -> float:
        """Seconds since the last message."""
        return time.monotonic() - self.last_received

    def send(self, message: Any) -> None:
        """Send a message after this turn of the loop; messages
        to a process that has ended are lost.

        All messages of a turn wake the writer once: each time it runs,
        the loop waits for the interpreter.
        """
        if not self.unsent:
            self.loop.call_soon(self._flush)
        self.unsent.append(message)

    def close(self) -> None:
        """Close this end, once the other one is closed. It waits for the
        threads: not to be called on the loop.
        """
        self.outbox.put(None)
        for thread in self.threads:
            thread.join(JOIN_SECONDS)
        self.connection.close()

    def _flush(self) -> None:
        messages = self.unsent
        self.unsent = []
        self.outbox.put(messages)

    def _write(self) -> None:
        """Run the writer thread: a full pipe blocks this thread, not the loop."""
        with suppress(OSError):  # the other process has ended; the reader reports it
            while (messages := self.outbox.get()) is not None:
                self.connection.send(messages)

    def _read(self) -> None:
        """Run the reader thread: pass each list of messages to the
        loop until the other process ends.
        """
        with suppress(RuntimeError):  # the loop is closed
            try:
                while True:
                    messages = self.connection.recv()
                    self.last_received = time.monotonic()
                    self.loop.call_soon_threadsafe(self.receive, messages)
            except (EOFError, OSError):
                self.loop.call_soon_threadsafe(self.closed.set)
