"""One engine process, the pipe to it, and the two threads at the pipe. Nothing of it outlives `wait_for_death`.

One thread reads the pipe and one writes it; everything else happens on the event loop, whose thread starts the process.
"""

import asyncio
import atexit
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from scanline.model.sampling.messages import Command, Event
from scanline.server.engine.worker.process import EngineOptions, start

CHECK_SECONDS = 1.0  # between two checks of the engine's heartbeat
EXIT_SECONDS = 5.0  # that an engine may take to exit by itself


class EngineProcess:
    """A started engine; `receive` gets each list of events, on the running loop."""

    def __init__(self, options: EngineOptions, receive: Callable[[list[Event]], None]) -> None:
        self.options, self.receive = options, receive
        self.loop = asyncio.get_running_loop()
        self.is_loaded = False  # set by the receiver
        self.ended = asyncio.Event()
        self.outbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.started = self.last_heartbeat = time.monotonic()
        self.process, self.connection = start(options)
        atexit.register(self.kill)  # multiprocessing would otherwise wait for a process that ignores SIGTERM
        targets = {"engine-events": self._read, "engine-commands": self._write}
        self.threads = [threading.Thread(target=targets[name], name=name, daemon=True) for name in targets]
        for thread in self.threads:
            thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether it can be sent requests."""
        return self.is_loaded and not self.ended.is_set()

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.started

    @property
    def silence(self) -> float:
        """Seconds since its last message. It sends one at least once a second, idle or between its ticks."""
        return time.monotonic() - self.last_heartbeat

    def send(self, command: Command) -> None:
        """Queue a command without waiting; what is sent to a dead engine is lost."""
        self.outbox.put(command)

    def kill(self) -> None:
        with suppress(ValueError):  # it has been closed already
            self.process.kill()

    async def wait_for_death(self) -> str:
        """Return how it died, once it and its threads are gone; one that hangs is killed."""
        limit = await self._hang()
        if limit is not None:
            self.kill()
        await self.ended.wait()
        self.outbox.put(None)
        status = await asyncio.to_thread(self._clean_up)
        atexit.unregister(self.kill)
        if limit is not None:
            return f"silent for {limit:g} seconds, then killed"
        return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    async def _hang(self) -> float | None:
        """The limit that its silence exceeded at two checks in a row (one alone may be a stall of this process).

        None where it died before.
        """
        late = False
        while True:
            limit = self.options.timeout if self.is_loaded else self.options.load_timeout
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), min(CHECK_SECONDS, limit / 4))
                return None
            was_late, late = late, self.silence > limit
            if was_late and late:
                return limit

    def _clean_up(self) -> int:
        """Wait for everything that is left of an engine whose pipe is closed; its exit status."""
        self.process.join(EXIT_SECONDS)
        self.process.kill()
        while (status := self.process.exitcode) is None:  # another thread may reap it first: that of a later start
            self.process.join(1)
        for thread in self.threads:
            thread.join()
        self.connection.close()
        self.process.close()
        return status

    def _write(self) -> None:
        """The writer thread: a full pipe blocks this thread, not the loop."""
        with suppress(OSError):  # the engine is gone; the reader reports it
            while (command := self.outbox.get()) is not None:
                self.connection.send(command)

    def _read(self) -> None:
        """The reader thread: hands each list of events to the loop until the engine is gone."""
        with suppress(RuntimeError):  # the loop is closed
            try:
                while True:
                    events = self.connection.recv()
                    self.last_heartbeat = time.monotonic()
                    self.loop.call_soon_threadsafe(self.receive, events)
            except (EOFError, OSError):
                self.loop.call_soon_threadsafe(self.ended.set)
