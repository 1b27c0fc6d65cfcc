"""The API's side of an engine: keeps one alive, gives it the jobs' commands, hands its events to the jobs.

When an engine dies (killed, crashed, out of memory, or silent for too long, which ends in a kill), the next one is
started and gets what is not done yet, from the seeds: whoever waits sees a pause, then the bytes that he would have
seen. Requests that come meanwhile are accepted and wait within the same bounds: a pause of seconds is better spent in
the queue than in every client's own retries. Only before the model has been loaded once, when nobody knows whether it
can be, are they refused. A request that is left before it is done is cancelled in the engine.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from scanline.model.sampling.messages import Cancel, CannotLoad, Event, Failed, Finished, Ready, Scored, Stats, Stop
from scanline.server.engine.client.engine_process import EngineProcess
from scanline.server.engine.client.handle import EngineHandle
from scanline.server.engine.client.job import PendingJob
from scanline.server.engine.client.quarantine import Quarantine
from scanline.server.engine.worker.process import EngineOptions

log = logging.getLogger("scanline.engine")

PAUSES = (0.0, 0.0, 1.0, 2.0, 4.0)  # seconds before the next life, by deaths in vain so far; one more ends it all
STEADY_SECONDS = 60.0  # of a life that was worth while even if nobody asked for an image
CLOSING_SECONDS = 5.0
STOPPED = "The engine stopped while it worked on this request."


class EngineClient(EngineHandle):
    """One model's engine through all its lives."""

    restarts = 0
    load_seconds = 0.0

    def __init__(self, options: EngineOptions, max_waiting_images: int, length: int) -> None:
        super().__init__(options, max_waiting_images, length)
        self.reported = Stats()
        self.quarantine = Quarantine()
        self.life: EngineProcess | None = None
        self.in_vain = 0  # deaths since an image was done, but for those that taught who is to blame
        self.closing = asyncio.Event()

    def start(self) -> None:
        """Starts the process, on the running event loop; `ready` tells when the model is loaded."""
        self.life = EngineProcess(self.options, self._receive)
        self.keeper = asyncio.create_task(self._keep(self.life))

    @property
    def slots(self) -> int:
        """Images in flight at once; 0 while the model loads for the first time."""
        return self.ready.slots if self.ready else 0

    @property
    def is_ready(self) -> bool:
        """Whether it can paint now: not while the model loads, for the first time or after a death."""
        return self.life is not None and self.life.ready and not self.gone.is_set()

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the engine was last heard of."""
        return self.life.silence if self.life else 0.0

    @property
    def stats(self) -> Stats:
        """What the engine last told of itself, with what waits for it here."""
        waiting = [self.jobs[request] for request in self.quarantine.waiting]
        return replace(
            self.reported,
            requests_waiting=self.reported.requests_waiting + len(waiting),
            images_waiting=self.reported.images_waiting + sum(job.left for job in waiting),
        )

    async def settled(self) -> None:
        """At once: who comes while the model loads is told so."""

    async def close(self) -> None:
        """Ends the engine, by force where it does not leave by itself."""
        assert self.life is not None
        self.closing.set()
        self.life.send(Stop())
        if self.life.ready:
            await asyncio.wait({self.keeper}, timeout=CLOSING_SECONDS)
        self.life.kill()
        await self.keeper

    def _begin(self, job: PendingJob) -> None:
        if self.gone.is_set() or self.closing.is_set():
            job.receive(Failed(job.request, STOPPED))
        else:
            self.quarantine.add(job.request)
            self._admit()

    def _leave(self, job: PendingJob) -> None:
        if job.over:
            return
        if self.quarantine.end(job.request, cancelled=True) and self.life:
            self.life.send(Cancel(job.request))
        self._admit()

    def _admit(self) -> None:
        """Gives the engine what may be in it now."""
        if self.life is not None and self.life.ready:
            for request in self.quarantine.admit():
                self.life.send(self.jobs[request].rest)

    def _receive(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Ready):
                assert self.life is not None
                self.ready, self.life.loaded, self.load_error = event, True, None
                self.load_seconds = self.life.age
                self._admit()
            elif isinstance(event, Stats):
                self.reported = event
            elif isinstance(event, CannotLoad):
                self.load_error = event.message
            elif job := self.jobs.get(event.request):
                self._tell(job, event)

    def _tell(self, job: PendingJob, event: Event) -> None:
        job.receive(event)
        if isinstance(event, Finished | Scored):
            self.quarantine.finished(job.request)
            self.in_vain = 0
        if job.over:
            self.quarantine.end(job.request)
            self._admit()

    async def _keep(self, life: EngineProcess) -> None:
        """Starts the next engine when one has died, until the server closes or another one would be in vain."""
        try:
            while True:
                how = await life.death()
                cause = self.load_error or how
                if self.closing.is_set():
                    return
                if hopeless := self._learn(life, cause):
                    log.critical("the engine died (%s); %s", cause, hopeless)
                    return
                log.error("the engine died (%s); requests that wait for the next one: %s", cause, len(self.jobs))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.closing.wait(), PAUSES[self.in_vain])
                    return
                self.restarts += 1
                life = self.life = EngineProcess(self.options, self._receive)
        except (OSError, RuntimeError):  # no room for a process, or for a thread
            log.exception("the engine cannot be started anew")
        finally:
            self._end()

    def _learn(self, life: EngineProcess, cause: str) -> str | None:
        """What an engine's death means for its requests; why there is to be no other, where there is not."""
        idle = not self.quarantine.inside
        self.reported = replace(
            self.reported, requests_running=0, requests_waiting=0, images_running=0, images_waiting=0
        )
        verdict = self.quarantine.died()
        if verdict.culprit is not None:
            message = "The engine died each time it worked on this request, and does not try it again."
            log.error("request %s has killed the engine twice and fails", verdict.culprit)
            self.jobs[verdict.culprit].receive(Failed(verdict.culprit, message))
        if life.loaded and idle and life.age > STEADY_SECONDS:
            self.in_vain = 0
        self.in_vain += verdict.culprit is None and not verdict.narrowed
        if self.ready is None:
            return "it has never been ready, and is not started again"
        if self.in_vain == len(PAUSES):
            return f"that is {self.in_vain} deaths without an image done in between, and it is not started again"
        return None

    def _end(self) -> None:
        """There is no engine any more; whoever still waits is told."""
        if not self.closing.is_set():
            self.gone.set()
        for job in self.jobs.values():
            self.quarantine.end(job.request)
            if not job.over:
                job.receive(Failed(job.request, STOPPED))
