"""One life of an engine: its process, the pipe to it, and the two threads at the pipe. Nothing of it outlasts `death`.

One thread reads the pipe and one writes it; all else happens on the event loop, in whose thread the process is started.
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

LOOK_SECONDS = 1.0  # between two looks at whether the engine speaks
LEAVING_SECONDS = 5.0  # that an engine may take to leave by itself


class EngineProcess:
    """A started engine; `receive` gets each list of events, on the running loop."""

    def __init__(self, options: EngineOptions, receive: Callable[[list[Event]], None]) -> None:
        self.options, self.receive = options, receive
        self.loop = asyncio.get_running_loop()
        self.loaded = False  # set by whoever receives
        self.over = asyncio.Event()
        self.outbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.born = self.heard = time.monotonic()
        self.process, self.connection = start(options)
        atexit.register(self.kill)  # where nobody closes it: multiprocessing would wait for what SIGTERM does to it
        targets = {"engine-events": self._read, "engine-commands": self._write}
        self.threads = [threading.Thread(target=targets[name], name=name, daemon=True) for name in targets]
        for thread in self.threads:
            thread.start()

    @property
    def ready(self) -> bool:
        """Whether it can be given work."""
        return self.loaded and not self.over.is_set()

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.born

    @property
    def silence(self) -> float:
        """Seconds since it was last heard of. Between its ticks it speaks once a second and more, idle or not."""
        return time.monotonic() - self.heard

    def send(self, command: Command) -> None:
        """Never waits; what is sent to a dead engine is lost."""
        self.outbox.put(command)

    def kill(self) -> None:
        with suppress(ValueError):  # it is dead and buried
            self.process.kill()

    async def death(self) -> str:
        """Returns when it is dead and nothing of it is left, with what it died of; one that hangs is killed."""
        limit = await self._silent_for_too_long()
        if limit is not None:
            self.kill()
        await self.over.wait()
        self.outbox.put(None)
        status = await asyncio.to_thread(self._bury)
        atexit.unregister(self.kill)
        if limit is not None:
            return f"silent for {limit:g} seconds, and then killed"
        return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    async def _silent_for_too_long(self) -> float | None:
        """The limit that its silence exceeded, twice in a row: a stall of this process is none of the engine's.

        None where it died before.
        """
        late = False
        while True:
            limit = self.options.timeout if self.loaded else self.options.load_timeout
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), min(LOOK_SECONDS, limit / 4))
                return None
            was_late, late = late, self.silence > limit
            if was_late and late:
                return limit

    def _bury(self) -> int:
        """Waits for all that is left of an engine whose pipe is closed; its exit status."""
        self.process.join(LEAVING_SECONDS)
        self.process.kill()
        while (status := self.process.exitcode) is None:  # at times another thread has it first: that of a start
            self.process.join(1)
        for thread in self.threads:
            thread.join()
        self.connection.close()
        self.process.close()
        return status

    def _write(self) -> None:
        """The writer's thread: a full pipe holds up this thread, not the loop."""
        with suppress(OSError):  # the engine is gone, and the reader says so
            while (command := self.outbox.get()) is not None:
                self.connection.send(command)

    def _read(self) -> None:
        """The reader's thread: hands each list of events to the loop until the engine is gone."""
        with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            try:
                while True:
                    events = self.connection.recv()
                    self.heard = time.monotonic()
                    self.loop.call_soon_threadsafe(self.receive, events)
            except (EOFError, OSError):
                self.loop.call_soon_threadsafe(self.over.set)
