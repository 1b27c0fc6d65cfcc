"""One end of the pipe between the main process and an API process: nothing that is sent waits for the other side.

One thread reads the pipe and one writes it; what arrives is handled on the event loop.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any


class Pipe:
    """`receive` gets each list of messages, on the loop that runs now; `closed` is set when the other end is closed."""

    def __init__(self, connection: Connection, receive: Callable[[list[Any]], None]) -> None:
        self.connection, self.receive = connection, receive
        self.loop = asyncio.get_running_loop()
        self.closed = asyncio.Event()
        self.unsent: list[Any] = []
        self.outbox: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        targets = {"pipe-reader": self._read, "pipe-writer": self._write}
        self.threads = [threading.Thread(target=targets[name], name=name, daemon=True) for name in targets]
        for thread in self.threads:
            thread.start()

    def send(self, message: Any) -> None:
        """Send a message with all others of this turn of the loop; what is sent to a process that is gone is lost."""
        if not self.unsent:
            self.loop.call_soon(self._flush)
        self.unsent.append(message)

    def close(self) -> None:
        """Close this end, once the other one is closed."""
        self.outbox.put(None)
        for thread in self.threads:
            thread.join()
        self.connection.close()

    def _flush(self) -> None:
        messages, self.unsent = self.unsent, []
        self.outbox.put(messages)

    def _write(self) -> None:
        with suppress(OSError):  # the other process is gone; the reader reports it
            while (messages := self.outbox.get()) is not None:
                self.connection.send(messages)

    def _read(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            try:
                while True:
                    self.loop.call_soon_threadsafe(self.receive, self.connection.recv())
            except (EOFError, OSError):
                self.loop.call_soon_threadsafe(self.closed.set)
