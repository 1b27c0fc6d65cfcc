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
from dataclasses import dataclass, field

import numpy as np

from scanline.model.sampling.errors import unrecoverable
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.launch import Launch, Placement
from scanline.model.sampling.messages import (
    Cancel,
    Event,
    Failed,
    GenerateRequest,
    Scheduled,
    Scored,
    ScoreRequest,
    Stats,
)
from scanline.model.sampling.prefixes import Prefixes
from scanline.model.sampling.reads import Read, Reads
from scanline.model.sampling.scheduler import Scheduler, SlotAssignment
from scanline.model.sampling.stats import StatsRecorder
from scanline.model.sampling.streams import Streams
from scanline.model.sampling.tick_length import TICK_SECONDS, TickLength
from scanline.model.sampling.time_shares import TimeShares

log = logging.getLogger("scanline.engine")

OTHER_MODEL = "The model changed while this request was in progress; send it again."
FAILED = "The engine failed while it worked on this request; its log says why."
NOT_FINITE = "The model computed numbers that are not finite for an image of this request."


@dataclass
class ActiveRequest:
    """A GenerateRequest of which not all images have been sent."""

    request: GenerateRequest
    left: int  # images that have not been sent
    accepted: float = field(default_factory=time.monotonic)
    is_scheduled: bool = False  # its first image has had a slot


class Engine:
    """Invariant between ticks: every assignment's request is in `requests`, and the generator holds its image; a
    request with waiting images has turns iff the prefix of the next one is there or not needed."""

    def __init__(self, generator: Generator, clock: Callable[[], float] = time.perf_counter) -> None:
        self.generator, self.clock = generator, clock
        self.length = generator.config.bytes
        self.scheduler = Scheduler(generator.slots)
        self.recorder = StatsRecorder()
        self.requests: dict[int, ActiveRequest] = {}
        self.prefixes = Prefixes(generator.slots)
        self.reads = Reads(generator, clock)
        self.refused: list[Failed] = []  # requests for another model, reported in the next tick
        self.positions = np.full(generator.slots, self.length)  # of every slot after the steps started; N: empty
        self.streams = Streams(generator)
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
            case GenerateRequest():
                self.requests[command.id] = ActiveRequest(command, len(command.indices))
                self.streams.add(command)
                self.scheduler.add(command.id, command.indices, command.client)
                self._prepare_next(self.requests[command.id])
            case ScoreRequest():
                images = [Read(command.id, i, command.images[i], self.length, True) for i in command.indices]
                self.reads.add(command.id, command.client, images)

    def tick(self) -> list[Event]:
        """One turn of the loop. A failure fails its requests and the engine goes on; an unrecoverable one is raised."""
        events: list[Event] = [*self.refused]
        self.refused.clear()
        try:
            self._admit(events)
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

    def _admit(self, events: list[Event]) -> None:
        """Fill free slots until slots or images run out, then let clients that have too few take slots of others."""
        placed: dict[int, Placement] = {}  # by slot: an image may lose its slot before it is placed
        while assignment := self.scheduler.admit():
            placed[assignment.slot] = self._placement(assignment)
        for victim, assignment in self.scheduler.reclaim(self.positions):
            if self.scheduler.next_index(victim.request) == victim.index:  # its request had no waiting images before
                self._prepare_next(self.requests[victim.request])
            placed[assignment.slot] = self._placement(assignment)
        if placed:
            self._place(list(placed.values()), events)

    def _placement(self, assignment: SlotAssignment) -> Placement:
        """Take the prefix that an image starts from, where it has one, and prepare for the next of its request."""
        active = self.requests[assignment.request]
        spec, source = active.request.image(assignment.index), active.request.source(assignment.index)
        known = self.generator.prefix(spec)
        prefix = self.prefixes.start_from(active.request.id, source) if source is not None and known else None
        self.positions[assignment.slot] = known or self.generator.config.first
        self._prepare_next(active)
        return Placement(assignment, spec, prefix)

    def _place(self, placements: list[Placement], events: list[Event]) -> None:
        """Start images in their slots, all at once; where that fails, request by request, to fail the one at fault."""
        try:
            self._start(placements, events)
        except Exception as error:
            if unrecoverable(error):
                raise
            requests = list(dict.fromkeys(one.assignment.request for one in placements))
            if len(requests) > 1:
                for request in requests:
                    self._place([one for one in placements if one.assignment.request == request], events)
                return
            log.exception("images could not be placed; their request fails")
            self._fail(requests[0], events)

    def _start(self, placements: list[Placement], events: list[Event]) -> None:
        """Start images in their slots, and report the requests of which they are the first."""
        slots = [one.assignment.slot for one in placements]
        self.generator.place_many(slots, [one.spec for one in placements], [one.prefix for one in placements])
        self.recorder.drawn_bytes += sum(self.generator.config.first for one in placements if one.prefix is None)
        self.recorder.known_bytes += sum(one.prefix.position for one in placements if one.prefix is not None)
        for request in dict.fromkeys(one.assignment.request for one in placements):
            active = self.requests[request]
            if not active.is_scheduled:
                active.is_scheduled = True
                events.append(Scheduled(request, self.recorder.scheduled(active.accepted)))

    def _prepare_next(self, active: ActiveRequest) -> None:
        """Keep a request's prefix for its next image, or hold the request until the one that it needs is there."""
        request, index = active.request, self.scheduler.next_index(active.request.id)
        source = None if index is None else request.source(index)
        if index is None or source is None or not self.generator.prefix(request.image(index)):
            self.prefixes.drop(request.id)
        elif not self.prefixes.keep(request.id, source):
            self.scheduler.hold(request.id)
            self.prefixes.want(request.id, request.client)

    def _read(self, events: list[Event]) -> None:
        """Read known bytes: for a share of the time that painting took, for a whole tick where nothing is painted."""
        while (request := self.prefixes.next_wanted()) is not None:
            self._read_prefix(self.requests[request].request)
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
                self.prefixes.put(request, reading.prefix(done.row))
                self.scheduler.resume(request)

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
        if len(clients) < len(self.scheduler.held):
            slots = np.array([one for one in slots.tolist() if self.scheduler.assigned[one].client in clients])
        step_bytes, before = self.generator.config.step_bytes, self.positions[slots]
        left = (self.length - int(before.min())) // step_bytes
        steps = self.tick_length.steps(len(slots), left, streamed=bool(self.streams.requests))
        seconds = self.generator.start(slots, steps)
        # An image moves by the same bytes in every step, so that its position is known before the steps have ended.
        self.positions[slots] = np.minimum(before + steps * step_bytes, self.length)
        painted = int((self.positions[slots] - before).sum())
        images = {client: self.scheduler.held[client] for client in clients}
        self.launched = Launch(seconds, steps, images, *self.recorder.launched(painted))

    def _retire(self) -> None:
        """Fetch what streams are due and what the steps complete, and free the slots of complete images."""
        if (launch := self.launched) is None:
            return
        launch.pieces, launch.snapshots = self.streams.due(self.scheduler.assigned, self.positions)
        busy = np.fromiter(self.scheduler.assigned, np.int64)
        complete = busy[self.positions[busy] == self.length].tolist()
        launch.finished = [self.scheduler.assigned[slot] for slot in complete]
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

    def _read_prefix(self, request: GenerateRequest) -> None:
        """Queue the known front of a request's next image, for which there is room now."""
        index = self.scheduler.next_index(request.id)
        assert index is not None
        source = request.source(index)
        assert source is not None
        self.prefixes.reserve(request.id, request.client, source)
        stop = self.generator.prefix(request.image(index))
        self.reads.add(request.id, request.client, [Read(request.id, index, request.known[source], stop, False)])

    def _fail(self, request: int, events: list[Event], message: str = FAILED) -> None:
        self._drop(request)
        events.append(Failed(request, message))

    def _drop(self, request: int) -> None:
        """Remove a request wherever it is and free its slots; an unknown one has ended already."""
        if slots := self.scheduler.cancel(request):
            self.generator.clear(slots)
            self.positions[slots] = self.length
        self.requests.pop(request, None)
        self.streams.drop(request)
        self.refused = [event for event in self.refused if event.request != request]
        self.prefixes.drop(request)
        self.reads.drop(request)
