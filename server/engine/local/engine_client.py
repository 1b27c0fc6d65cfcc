"""The handle of one engine in a child process: restarts it, sends it
requests, delivers its events to the jobs.

When an engine dies (killed, crashed, out of memory, or silent for too long, which ends in a kill),
the next one is started and gets every unfinished request again, from its seed: clients see a pause,
then the bytes that they would have seen. Requests that arrive meanwhile are accepted and wait
within the same bounds, because a pause of seconds is better spent in the queue than in every
client's own retries. Requests are refused only before the model has been loaded once. A request
whose client has left is cancelled in the engine.

Every engine loads the same copy of the model's files, and must report the digest of the first one:
an engine that would paint other bytes (its GPU is gone, the installed build has changed) never
continues a request, and is not served. With int8 weights the CPU paints a GPU's bytes, and goes on
where that is gone.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

from scanline.model.base.device import AUTO
from scanline.model.base.precision import precision
from scanline.model.sampling.base.messages import (
    Cancel,
    CannotLoad,
    Event,
    Failed,
    Finished,
    Ready,
    Scored,
    Stats,
    Stop,
)
from scanline.server.engine.handle import EngineHandle
from scanline.server.engine.job import Job
from scanline.server.engine.local.engine_process import (
    SILENT_SECONDS,
    EngineProcess,
    UnkillableEngineError,
)
from scanline.server.engine.local.quarantine import Quarantine
from scanline.server.engine.queue_limits import UNLIMITED, QueueLimits
from scanline.server.engine.worker.model_copy import KEEP_SECONDS, ModelCopy
from scanline.server.engine.worker.process import EngineOptions

log = logging.getLogger("scanline.engine")

# seconds, by crashes in a row without progress; one more is the last
RESTART_DELAYS = (0.0, 0.0, 1.0, 2.0, 4.0)
STEADY_SECONDS = 60.0  # an idle engine that lived for so long counts as progress
CLOSING_SECONDS = 5.0
STOPPED = "The engine stopped while it worked on this request."
MODEL_CHANGED = "The engine was restarted with another model or on another device, which would paint other bytes."


class EngineClient(EngineHandle):
    """One model's engine through all its restarts."""

    load_seconds = 0.0

    def __init__(self, options: EngineOptions, limits: QueueLimits = UNLIMITED) -> None:
        super().__init__(options, limits)
        self.copy = ModelCopy(options.directory)
        self.loaded = asyncio.Event()  # the first time
        self.reported = Stats()
        self.quarantine = Quarantine()
        self.process: EngineProcess | None = None
        # in a row without progress: no image finished and no suspect eliminated
        self.unproductive_crashes = 0
        self.closing = asyncio.Event()

    def start(self) -> None:
        """Start the process, on the running event loop; `ready` is set once the model is loaded."""
        self.process = self._started_process()
        self.supervisor = asyncio.create_task(self._supervise())
        self.keeping = asyncio.create_task(self._keep_copy())

    @property
    def directory(self) -> Path:
        """Directory of the copy, which has the weights once the model is loaded."""
        return self.copy.directory

    @property
    def is_ready(self) -> bool:
        """Whether it can paint now: not while the model loads, or the engine is
        silent, although requests may wait.
        """
        if self.heartbeat_age > SILENT_SECONDS or self.failed.is_set():
            return False
        return self._accepts_requests

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the engine's last message."""
        return self.process.silence if self.process else 0.0

    @property
    def stats(self) -> Stats:
        """The engine's last report, with what engines before it have done and
        what is still waiting on this side.
        """
        waiting = [self.jobs[request] for request in self.quarantine.waiting]
        others = (done for handle, done in self.counters.running.items() if handle != id(self))
        return reduce(add, others, self.counters.ended) + replace(
            self.reported,
            requests_waiting=self.reported.requests_waiting + len(waiting),
            images_waiting=self.reported.images_waiting + sum(job.images_left for job in waiting),
        )

    async def close(self) -> None:
        """Stop the engine, by force where it does not exit by itself."""
        assert self.process is not None
        self.closing.set()
        self.process.pipe.send(Stop())
        if self._accepts_requests:
            await asyncio.wait({self.supervisor}, timeout=CLOSING_SECONDS)
        self.process.kill()
        await self.supervisor
        self.counters.end_engine(id(self))
        self.copy.remove()

    async def _keep_copy(self) -> None:
        await self.loaded.wait()
        while True:
            await asyncio.to_thread(self.copy.keep)
            await asyncio.sleep(KEEP_SECONDS)

    def _started_process(self) -> EngineProcess:
        options = replace(self.options, copy=self.copy.directory, is_copied=self.ready is not None)
        if self.ready is not None:
            device = self.ready.device
            backend = self.ready.backend_name
            if precision(options.precision).int8_weights:
                device = backend = AUTO
            # at other precisions another backend would paint other bytes
            options = replace(options, device=device, backend=backend)
        return EngineProcess(options, self._receive)

    def _begin(self, job: Job) -> None:
        if self.failed.is_set() or self.closing.is_set():
            job.receive(Failed(job.id, STOPPED))
        else:
            self.quarantine.add(job.id)
            self._send_admitted()

    def _leave(self, job: Job) -> None:
        if job.has_ended:
            return
        if self.quarantine.end(job.id, cancelled=True) and self.process:
            self.process.pipe.send(Cancel(job.id))
        self._send_admitted()

    @property
    def _accepts_requests(self) -> bool:
        """Whether the engine can be sent requests, which it gets even if it is silent for a while."""
        process = self.process
        if process is None or process.is_killed or process.pipe.closed.is_set():
            return False
        return process.is_loaded

    def _send_admitted(self) -> None:
        if self._accepts_requests:
            assert self.process is not None
            for request in self.quarantine.admit():
                self.process.pipe.send(self.jobs[request].remainder)

    def _receive(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Ready):
                self._accept_engine(event)
            elif isinstance(event, Stats):
                self.reported = event
                self.counters.running[id(self)] = event.done
            elif isinstance(event, CannotLoad):
                self.load_error = event.message
            elif job := self.jobs.get(event.request):
                self._deliver(job, event)

    def _accept_engine(self, ready: Ready) -> None:
        """Send a loaded engine the requests, unless it would not
        paint what the one before it painted.
        """
        assert self.process is not None
        if self.ready is not None and ready.whole_digest != self.ready.whole_digest:
            digests = f"{ready.whole_digest}, not {self.ready.whole_digest}"
            self.failure_reason = f"its engine was restarted with the digest {digests}"
            self._fail_all(MODEL_CHANGED, "model_changed")
            self.failed.set()
            self.process.kill()
            return
        if self.ready is not None and ready.backend_name != self.ready.backend_name:
            log.warning(
                "the engine goes on with the same bytes on %s, no longer on %s",
                ready.backend,
                self.ready.backend,
            )
        self.ready = ready
        self.process.is_loaded = True
        self.load_error = None
        self.load_seconds = self.process.age
        self.loaded.set()
        self._send_admitted()

    def _deliver(self, job: Job, event: Event) -> None:
        if job.deliver(event) and self.process is not None:
            self.process.pipe.send(Cancel(job.id))
        if isinstance(event, Finished | Scored):
            self.quarantine.finished(job.id)
            self.unproductive_crashes = 0
        if job.has_ended:
            self.quarantine.end(job.id)
            self._send_admitted()

    async def _supervise(self) -> None:
        """Start the next engine whenever one has died, until the server closes or
        crashes in a row made no progress.
        """
        process = self.process
        try:
            while True:
                try:
                    if process is None:
                        await asyncio.to_thread(self.copy.keep)
                        # `close` has ended the process before this one, and knows of no other
                        if self.closing.is_set():
                            return
                        process = self._started_process()
                    self.process = process
                    how = await process.wait_for_death()
                # no room for a process or a thread: as a crash
                except (OSError, RuntimeError) as error:
                    how = f"it cannot be started: {error}"
                cause = self.load_error or how
                if self.closing.is_set():
                    return
                if self.failed.is_set():
                    log.critical("the engine is not served: %s", self.failure_reason)
                    return
                if reason := self._after_crash(process):
                    log.critical("the engine died (%s); %s", cause, reason)
                    return
                log.error(
                    "the engine died (%s); requests waiting for the next one: %s",
                    cause,
                    len(self.jobs),
                )
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self.closing.wait(), RESTART_DELAYS[self.unproductive_crashes]
                    )
                    return
                self.counters.restarts += 1
                process = None
        except UnkillableEngineError as error:
            self.failure_reason = "its engine hangs and cannot be killed"
            log.critical("the engine cannot be killed and is given up: %s", error)
        finally:
            self._end()

    def _after_crash(self, process: EngineProcess | None) -> str | None:
        """Fail the request that killed the engine, if any; return why there
        is to be no other engine, or None.
        """
        was_idle = not self.quarantine.inside
        self.reported = Stats()
        self.counters.end_engine(id(self))
        # A request that kills every engine it is in fails alone; the others are replayed.
        verdict = self.quarantine.died()
        if verdict.culprit is not None:
            message = (
                "The engine died each time it worked on this request, and does not try it again."
            )
            log.error("request %s has killed the engine twice and fails", verdict.culprit)
            self.jobs[verdict.culprit].receive(Failed(verdict.culprit, message))
        # Crashes without progress are counted; too many in a row
        # mean that another engine would die too.
        if process and process.is_loaded and was_idle and process.age > STEADY_SECONDS:
            self.unproductive_crashes = 0
        if verdict.culprit is None and not verdict.narrowed:
            self.unproductive_crashes += 1
        if self.ready is None:
            return "it has never been ready and is not started again"
        if self.unproductive_crashes == len(RESTART_DELAYS):
            return f"{self.unproductive_crashes} crashes in a row without a finished image: it is not started again"
        return None

    def _end(self) -> None:
        """Fail what still waits: no other engine is started."""
        self.keeping.cancel()
        if not self.closing.is_set():
            self.failed.set()
        self._fail_all(STOPPED)

    def _fail_all(self, message: str, code: str = "engine_failed") -> None:
        for job in self.jobs.values():
            self.quarantine.end(job.id)
            if not job.has_ended:
                job.receive(Failed(job.id, message, code))
