"""One engine process and the pipe to it. Nothing of it outlives `wait_for_death`.

The exception is a process that SIGKILL does not end, because it waits for a device or a file system
that hangs: it is abandoned, so that this process can exit without it.
"""

import asyncio
import atexit
import multiprocessing.process
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from scanline.model.sampling.base.messages import Event
from scanline.server.engine.pipe import Pipe
from scanline.server.engine.worker.forkserver import CONTEXT, start
from scanline.server.engine.worker.process import EngineOptions, process_of

CHECK_SECONDS = 1.0  # between two checks of the engine's heartbeat
EXIT_SECONDS = 5.0  # that an engine may take to exit by itself
KILL_SECONDS = 10.0  # that a killed engine may take to end
SILENT_SECONDS = 10.0  # without a message after which an engine does not count as ready


class UnkillableEngineError(Exception):
    """An engine that a kill has not ended; the message says so."""


class EngineProcess:
    """A started engine; `receive` gets each list of events, on the running loop."""

    def __init__(self, options: EngineOptions, receive: Callable[[list[Event]], None]) -> None:
        self.options = options
        self.is_loaded = False  # set by the receiver
        self.is_killed = False
        self.started = time.monotonic()
        connection, self.child_connection = CONTEXT.Pipe()
        self.process = process_of(options, self.child_connection)
        self.starting = asyncio.create_task(asyncio.to_thread(self._start))
        # multiprocessing would otherwise wait for a process that ignores SIGTERM
        atexit.register(self.kill)
        # commands that are sent to a dead engine are lost
        self.pipe = Pipe(connection, receive, "engine")

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.started

    @property
    def silence(self) -> float:
        """Seconds since its last message. It sends one at least once a
        second, idle or between its ticks.
        """
        return self.pipe.silence

    def kill(self) -> None:
        """Kill it; it is not ready from now on."""
        self.is_killed = True
        with suppress(ValueError):  # it has been closed already
            if self.process.pid is not None:
                self.process.kill()

    async def wait_for_death(self) -> str:
        """Return how it died, once it and its threads have ended; one that hangs is killed.

        UnkillableEngineError where a kill does not end it; OSError or
        RuntimeError where it could not be started.
        """
        try:
            await self.starting
        except (OSError, RuntimeError):
            self.child_connection.close()  # which ends the pipe's threads
            await asyncio.to_thread(self.pipe.close)
            atexit.unregister(self.kill)
            raise
        limit = await self._hang()
        if limit is not None:
            self.kill()
        try:
            await asyncio.wait_for(self.pipe.closed.wait(), KILL_SECONDS)
        except TimeoutError:
            raise self._abandoned() from None
        status = await asyncio.to_thread(self._clean_up)
        atexit.unregister(self.kill)
        if status is None:
            raise self._abandoned()
        if limit is not None:
            return f"silent for {limit:g} seconds, then killed"
        return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    def _start(self) -> None:
        """Start the process, which may wait for the fork server's imports; its end of the pipe is
        closed here, so that its death is our end of file."""
        try:
            start(self.process)
        finally:
            self.child_connection.close()
        if self.is_killed:
            self.kill()

    async def _hang(self) -> float | None:
        """Return the limit that its silence exceeded at two checks in a row: one alone may be a
        stall of this process. None where it died or was killed before."""
        late = False
        while not self.is_killed:
            limit = self.options.timeout if self.is_loaded else self.options.load_timeout
            with suppress(TimeoutError):
                await asyncio.wait_for(self.pipe.closed.wait(), min(CHECK_SECONDS, limit / 4))
                return None
            was_late = late
            late = self.silence > limit
            if was_late and late:
                return limit
        return None

    def _clean_up(self) -> int | None:
        """Wait for everything that is left of an engine whose pipe is closed;
        its exit status, None if it stays.
        """
        self.process.join(EXIT_SECONDS)
        self.process.kill()
        until = time.monotonic() + KILL_SECONDS
        # another thread may reap it first: that of a later start
        while (status := self.process.exitcode) is None:
            if time.monotonic() > until:
                return None
            self.process.join(1)
        self.pipe.close()
        self.process.close()
        return status

    def _abandoned(self) -> UnkillableEngineError:
        """Stop waiting for the process, at this process's exit too, where
        multiprocessing would wait without limit.
        """
        multiprocessing.process._children.discard(self.process)  # type: ignore[attr-defined]
        message = f"process {self.process.pid} is still there {KILL_SECONDS:g} seconds after it was killed"
        return UnkillableEngineError(message)
