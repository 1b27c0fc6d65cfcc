"""The engine loop: admit, read, step, retire, deliver.

The server's engine process and offline painting (`offline.py`) drive the same loop. It knows the generator and the
scheduler, not the process or the pipe: commands come in through `accept`, events go out in one list a tick. Memory does
not depend on how many requests wait, but for the requests themselves.

Nothing that the loop decides depends on what a step computes: an image moves by the same bytes in every step. So where
a device works on its own, it is given the next tick's steps before the last ones have ended.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

from scanline.model.inputs import TOO_FEW_SLOTS_TO_GUIDE, TOO_MANY_PARTICLES
from scanline.model.sampling.admission import Admission
from scanline.model.sampling.errors import unrecoverable
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.launch import Launch
from scanline.model.sampling.messages import (
    Cancel,
    Event,
    Failed,
    GenerateRequest,
    Scored,
    ScoreRequest,
    Stats,
)
from scanline.model.sampling.particles import at_check, groups, steps_to_check
from scanline.model.sampling.reads import Read, Reads
from scanline.model.sampling.stats.engine_stats import StatsRecorder
from scanline.model.sampling.stats.tick_length import TICK_SECONDS, TickLength
from scanline.model.sampling.stats.time_shares import TimeShares
from scanline.model.sampling.streams import Streams

log = logging.getLogger("scanline.engine")

OTHER_MODEL = "The model changed while this request was in progress; send it again."
FAILED = "The engine failed while it worked on this request; its log says why."
NOT_FINITE = "The model computed numbers that are not finite for an image of this request."


class Engine:
    """Invariant between ticks: every assignment's request is in `requests`, and the generator holds its image, of which
    no particle has passed a check without resampling."""

    def __init__(self, generator: Generator, clock: Callable[[], float] = time.perf_counter) -> None:
        self.generator, self.clock = generator, clock
        self.length = generator.config.bytes
        self.recorder = StatsRecorder()
        self.reads = Reads(generator, clock)
        self.admission = Admission(generator, self.reads, self.recorder)
        self.requests, self.positions = self.admission.requests, self.admission.positions
        self.scheduler, self.prefixes = self.admission.scheduler, self.admission.prefixes
        self.refused: list[Failed] = []  # requests that cannot be served, reported in the next tick
        self.streams = Streams(generator, clock)
        self.time_shares = TimeShares()
        self.tick_length = TickLength()
        self.launched: Launch | None = None  # in this tick
        self.under_way: Launch | None = None  # what the device is doing between two ticks
        self.painted_seconds = 0.0  # since known bytes were last read

    @property
    def idle(self) -> bool:
        return not self.requests and self.reads.idle and not self.refused

    def accept(self, command: GenerateRequest | ScoreRequest | Cancel) -> None:
        """Queue a request or drop one; its work happens in the ticks to come."""
        match command:
            case Cancel():
                self._drop(command.request)
            case _ if command.digest and command.digest != self.generator.digest:
                log.warning("a request for the model %s is refused: this is %s", command.digest, self.generator.digest)
                self.refused.append(Failed(command.id, OTHER_MODEL, "model_changed"))
            case GenerateRequest() if self._most_particles(command) > self.generator.slots:
                message = TOO_MANY_PARTICLES.format(self.generator.slots, command.particles)
                self.refused.append(Failed(command.id, message, "too_many_particles"))
            case GenerateRequest() if command.is_guided and self.generator.slots < 2:
                self.refused.append(Failed(command.id, TOO_FEW_SLOTS_TO_GUIDE, "guidance_not_supported"))
            case GenerateRequest():
                self.streams.add(command)
                self.admission.add(command)
            case ScoreRequest(images=images, label_of=label):
                reads = [Read(command.id, i, images[i], self.length, True, label(i)) for i in command.indices]
                self.reads.add(command.id, command.client, reads)

    def tick(self) -> list[Event]:
        """One turn of the loop. A failure fails its requests and the engine goes on; an unrecoverable one is raised."""
        events: list[Event] = [*self.refused]
        self.refused.clear()
        try:
            self.admission.admit(events, self._fail)
            self._read(events)
            began = self.clock()
            self._step()
            self._retire()
            self._deliver(events)
            self.painted_seconds = self.clock() - began
        except Exception as error:
            if unrecoverable(error):
                raise
            log.exception("painting failed; its requests fail with it")
            self.launched = self.under_way = None
            self.recorder.unpainted.clear()
            for request in list(self.requests):
                self._fail(request, events)
        return events

    def stats(self) -> Stats:
        """What is in progress now and what has been done."""
        running = sum(one.is_scheduled for one in self.requests.values())
        scores = self.reads.scores()
        return self.recorder.report(
            requests_running=running + scores.requests_running,
            requests_waiting=len(self.requests) - running + scores.requests_waiting,
            images_running=0 if self.idle else self.recorder.batch,
            images_waiting=self.scheduler.images_waiting + scores.images_waiting,
            scores_running=scores.images_running,
            scores_waiting=scores.images_waiting,
        )

    def _read(self, events: list[Event]) -> None:
        """Read known bytes: for a share of the time that painting took, for a whole tick where nothing is painted."""
        self.admission.read_prefixes()
        painted = self.painted_seconds if self.scheduler.assigned else None
        ended = self.reads.run(painted, TICK_SECONDS, self.scheduler.held.keys(), self._wait)
        self.time_shares.charge(self.reads.spent)
        for done in ended:
            request, reading = done.read.request, done.reading
            if reading is None:
                self._fail(request, events)
            elif not np.isfinite(reading.bits_of(done.row)[reading.first :]).all():
                self._fail(request, events, NOT_FINITE)
            elif done.read.is_score:
                events.append(Scored(request, done.read.index, reading.bits_of(done.row).tobytes()))
            else:
                self.admission.put_prefix(request, reading.prefix(done.row))

    def _wait(self) -> None:
        """Return when the device has nothing to do, so that what it does next can be timed."""
        if self.under_way is not None:
            self.under_way.seconds.wait()

    def _step(self) -> None:
        """Start a tick's steps of all images but those of clients that have used more than their share of the time."""
        slots = np.flatnonzero(self.scheduler.is_busy)
        self.recorder.batch = len(slots)
        if not len(slots):
            return
        clients = self.time_shares.next(self.scheduler.held)
        images = self.scheduler.assigned.values()
        several = [one for one in self.scheduler.groups.values() if one.client in clients]
        if len(clients) < len(self.scheduler.held):
            slots = np.sort([slot for one in images if one.client in clients for slot in one.slots])
        step_bytes, before = self.generator.config.step_bytes, self.positions[slots]
        left = (self.length - int(before.min())) // step_bytes
        steps = self.tick_length.steps(len(slots), left, streamed=bool(self.streams.requests))
        steps = steps_to_check(several, self.positions, steps, step_bytes)
        seconds = self.generator.start(slots, steps)
        # An image moves by the same bytes in every step, so that its position is known before the steps have ended.
        self.positions[slots] = np.minimum(before + steps * step_bytes, self.length)
        painted = int((self.positions[slots] - before)[self.scheduler.is_first[slots]].sum())
        for due in at_check(several, self.positions):
            self.generator.resample(due)
        held = {client: self.scheduler.held[client] for client in clients}
        self.launched = Launch(seconds, steps, held, *self.recorder.launched(painted))

    def _retire(self) -> None:
        """Fetch what streams are due and what the steps complete, and free the slots of complete images."""
        if (launch := self.launched) is None:
            return
        launch.pieces, launch.snapshots = self.streams.due(self.scheduler.assigned, self.positions)
        first = np.fromiter(self.scheduler.assigned, np.int64)
        complete = first[self.positions[first] == self.length].tolist()
        launch.finished = [self.scheduler.assigned[slot] for slot in complete]
        several = [one for one in launch.finished if len(one.particles) > 1]
        for ended in groups(several, [self.length] * len(several)):
            self.generator.choose(ended)
        if slots := launch.slots:
            launch.fetched = self.generator.fetch(slots)
        for one in launch.finished:
            self.scheduler.release(one.slot)

    def _deliver(self, events: list[Event]) -> None:
        """Send what has been painted by the steps that have ended."""
        ended, self.launched = self.launched, None
        if self.generator.is_asynchronous:
            ended, self.under_way = self.under_way, ended
        if ended is None:
            return
        self._account(ended)
        for request in ended.overflowed(self.requests, may_be_infinite=self.generator.config.first > 0):
            self._fail(request, events, NOT_FINITE)
        events += ended.pixels(self.requests)
        events += ended.state_snapshots(self.requests)
        events += ended.finished_images(self.requests)
        for request, count in Counter(one.request for one in ended.finished).items():
            if active := self.requests.get(request):
                active.left -= count
                if not active.left:
                    del self.requests[request]
                    self.streams.drop(request)

    def _account(self, ended: Launch) -> None:
        """Note how long steps have taken and what they have painted."""
        seconds, images = ended.seconds.wait(), sum(ended.images.values())
        self.time_shares.spent(seconds, ended.images)
        self.tick_length.took(seconds, ended.steps, images)
        self.recorder.stepped(ended.steps, seconds / ended.steps, images)
        self.recorder.painted(ended.painted_bytes, ended.accepted)

    def _most_particles(self, request: GenerateRequest) -> int:
        """The most slots that an image of a request needs."""
        return max(map(request.particles_of, request.indices)) if request.particles > 1 else 1

    def _fail(self, request: int, events: list[Event], message: str = FAILED) -> None:
        self._drop(request)
        events.append(Failed(request, message))

    def _drop(self, request: int) -> None:
        """Remove a request wherever it is and free its slots; an unknown one has ended already."""
        self.admission.drop(request)
        self.streams.drop(request)
        self.refused = [event for event in self.refused if event.request != request]
        self.reads.drop(request)
