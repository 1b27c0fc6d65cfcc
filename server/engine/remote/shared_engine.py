"""An API process's handle of an engine that the main process has, for all API processes."""

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from scanline.model.sampling.messages import Failed, Stats
from scanline.server.engine.handle import EngineHandle
from scanline.server.engine.job import PendingJob
from scanline.server.engine.local.engine_client import STOPPED
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.remote.messages import EngineStatus

if TYPE_CHECKING:
    from scanline.server.engine.remote.main_process import MainProcess


class SharedEngine(EngineHandle):
    """One model's jobs of this process. Its state is what the main process last said of it."""

    def __init__(self, model: str, status: EngineStatus, limits: QueueLimits, main: "MainProcess") -> None:
        super().__init__(status.options, limits)
        self.model, self.main = model, main
        self.request_ids = main.request_ids  # a request has one id, whatever its model
        self.take(status)

    def take(self, status: EngineStatus) -> None:
        """Take in a newer status."""
        self.status, self.received = status, monotonic()
        self.ready, self.load_error, self.death = status.ready, status.load_error, status.death
        if status.has_failed:
            self.failed.set()

    def succeed(self, old: "SharedEngine") -> None:
        """Count on from where the handle counted that this one replaces, and share one queue with it."""
        self.admission, self.counters = old.admission, old.counters

    def start(self) -> None:
        """Nothing: the main process has started it."""

    async def settled(self) -> None:
        """Return at once."""

    async def close(self) -> None:
        """Nothing: the main process closes it."""

    @property
    def directory(self) -> Path:
        """Where the files of the served model are."""
        return self.status.directory

    @property
    def is_ready(self) -> bool:
        """Whether it could paint at the last report."""
        return self.status.is_ready and not self.failed.is_set()

    @property
    def slots(self) -> int:
        """Of the whole engine."""
        return self.ready.slots if self.ready else 0

    @property
    def admitted_slots(self) -> int:
        """This process's part of the slots, or all that the others do not use."""
        return max(1, self.slots // self.main.processes, self.slots - self.status.others)

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the engine's last message to the main process."""
        return self.status.heartbeat_age + monotonic() - self.received

    @property
    def restarts(self) -> int:
        """Engines started after the first one."""
        return self.status.restarts

    @property
    def load_seconds(self) -> float:
        """Seconds from the engine's start until it was ready."""
        return self.status.load_seconds

    @property
    def stats(self) -> Stats:
        """Of the whole engine."""
        return self.status.stats

    def _begin(self, job: PendingJob) -> None:
        if self.failed.is_set():
            job.receive(Failed(job.id, STOPPED))
        else:
            self.main.begin(self.model, job)

    def _leave(self, job: PendingJob) -> None:
        self.main.leave(job)
