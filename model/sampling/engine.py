"""The engine loop: admit, step, deliver, retire; then known bytes are read for a share of the time.

The server's engine process and offline painting (`offline.py`) drive the same loop. It knows the generator and the
scheduler, not the process or the pipe: commands come in through `accept`, events go out in one list a tick. Memory does
not depend on how many requests wait, but for the requests themselves.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from scanline.model.sampling.errors import unrecoverable
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import (
    Cancel,
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Pixels,
    Scheduled,
    Scored,
    ScoreRequest,
    StateSnapshot,
    Stats,
)
from scanline.model.sampling.prefixes import Prefixes
from scanline.model.sampling.reads import Read, Reads
from scanline.model.sampling.scheduler import Scheduler, SlotAssignment
from scanline.model.sampling.stats import StatsRecorder
from scanline.model.sampling.tick_length import TICK_SECONDS, TickLength
from scanline.model.sampling.time_shares import TimeShares

log = logging.getLogger("scanline.engine")

FRAME_SECONDS = 0.0005  # between two frames, all streams together: ten times what one costs the API's side
REQUEST_PACE = 3  # times FRAME_SECONDS between two frames of one request: a browser that draws them shares our cores
OTHER_MODEL = "The model changed while this request was in progress; send it again."


@dataclass
class ActiveRequest:
    """A GenerateRequest that is waiting or in slots."""

    request: GenerateRequest
    left: int  # images that are not finished
    accepted: float = field(default_factory=time.monotonic)
    is_scheduled: bool = False  # its first image has had a slot
    frames_at: float = 0.0  # when its streams get their next frames, if others have left time for them


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
        self.positions = np.full(generator.slots, self.length)  # of every slot after the last tick; N: empty
        self.frames_at = 0.0  # when streams get their next frames
        self.time_shares = TimeShares()
        self.tick_length = TickLength()

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
                self.scheduler.add(command.id, command.indices, command.client)
                self._prepare_next(self.requests[command.id])
            case ScoreRequest():
                images = [Read(command.id, i, command.images[i], self.length, True) for i in command.indices]
                self.reads.add(command.id, command.client, images)

    def tick(self) -> list[Event]:
        """One turn of the loop. A failure fails its requests and the engine goes on; an unrecoverable one is raised."""
        events: list[Event] = [*self.refused]
        self.refused.clear()
        began = time.perf_counter()
        try:
            self._admit(events)
            self._step()
            self._deliver(events)
            self._retire(events)
        except Exception as error:
            if unrecoverable(error):
                raise
            log.exception("painting failed; its requests fail with it")
            self.recorder.unpainted.clear()
            for request in list(self.requests):
                self._fail(request, events)
        self._read(time.perf_counter() - began if self.recorder.batch else 0.0, events)
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
        while assignment := self.scheduler.admit():
            self._start(assignment, events)
        while reclaimed := self.scheduler.reclaim(self.positions):
            victim, assignment = reclaimed  # in the same slot, which `_start` overwrites
            if self.scheduler.next_index(victim.request) == victim.index:  # its request had no waiting images before
                self._prepare_next(self.requests[victim.request])
            self._start(assignment, events)

    def _start(self, assignment: SlotAssignment, events: list[Event]) -> None:
        """Place an image in its slot; its request fails where that fails."""
        active = self.requests[assignment.request]
        try:
            self._place(assignment, active)
        except Exception as error:
            if unrecoverable(error):
                raise
            log.exception("an image could not be placed; its request fails")
            self._fail(assignment.request, events)
            return
        if not active.is_scheduled:
            active.is_scheduled = True
            seconds = self.recorder.scheduled(active.accepted)
            events.append(Scheduled(assignment.request, seconds))

    def _place(self, assignment: SlotAssignment, active: ActiveRequest) -> None:
        """Start an image in its slot, after its prefix where it has one."""
        image, source = active.request.image(assignment.index), active.request.source(assignment.index)
        known = self.generator.prefix(image)
        prefix = self.prefixes.start_from(active.request.id, source) if source is not None and known else None
        self.generator.place(assignment.slot, image, prefix)
        self.positions[assignment.slot] = known
        self.recorder.known_bytes += known
        self._prepare_next(active)

    def _prepare_next(self, active: ActiveRequest) -> None:
        """Keep a request's prefix for its next image, or hold the request until the one that it needs is there."""
        request, index = active.request, self.scheduler.next_index(active.request.id)
        source = None if index is None else request.source(index)
        if index is None or source is None or not self.generator.prefix(request.image(index)):
            self.prefixes.drop(request.id)
        elif not self.prefixes.keep(request.id, source):
            self.scheduler.hold(request.id)
            self.prefixes.want(request.id, request.client)

    def _step(self) -> None:
        """Paint a tick's steps of all images but those of clients that have used more than their share of the time."""
        self.recorder.batch = len(self.scheduler.assigned)
        if not self.recorder.batch:
            return
        clients = self.time_shares.next(self.scheduler.held)
        paused: list[int] = []
        if len(clients) < len(self.scheduler.held):
            paused = [one.slot for one in self.scheduler.assigned.values() if one.client not in clients]
        images = self.recorder.batch - len(paused)
        still = np.delete(self.positions, paused)
        left = (self.length - int(still.min())) // self.generator.config.step_bytes
        streamed = any(one.request.stream or one.request.snapshot for one in self.requests.values())
        steps = self.tick_length.steps(images, left, streamed=streamed)
        began = self.clock()
        self.generator.advance(steps, paused)
        seconds = self.clock() - began
        self.time_shares.spent(seconds, {client: self.scheduler.held[client] for client in clients})
        self.tick_length.took(seconds, steps, images)
        self.recorder.stepped(steps, seconds / steps, images)

    def _deliver(self, events: list[Event]) -> None:
        """Send the bytes and states that streams are due."""
        positions = self.generator.positions()
        self.recorder.painted(int((positions - self.positions).sum()))
        self.positions[:] = positions
        streaming = {number for number, active in self.requests.items() if active.request.stream}
        if streaming:
            self._send_pixels([one for one in self.scheduler.assigned.values() if one.request in streaming], events)
        watched = {number: active.request.snapshot for number, active in self.requests.items()}
        if any(watched.values()):
            self._send_snapshots(watched, events)

    def _send_pixels(self, streams: list[SlotAssignment], events: list[Event]) -> None:
        """First and last bytes of an image are sent at once, others each tick or, with many streams, less often."""
        positions, now = self.positions.tolist(), time.monotonic()
        fresh = [one for one in streams if positions[one.slot] > one.sent]
        due = self._due(streams, now)
        fresh = [one for one in fresh if one.request in due or not one.sent or positions[one.slot] == self.length]
        painted: dict[int, list[tuple[int, int, bytes]]] = {}
        for one, image in zip(fresh, self.generator.images([one.slot for one in fresh]), strict=True):
            stop = positions[one.slot]
            painted.setdefault(one.request, []).append((one.index, one.sent, image[one.sent : stop].tobytes()))
            one.sent = stop
        events += [Pixels(request, frames) for request, frames in painted.items()]

    def _due(self, streams: list[SlotAssignment], now: float) -> set[int]:
        """The requests whose streams get frames in this tick. 64 images of one request get them ten times a second."""
        if now < self.frames_at:
            return set()
        self.frames_at = now + FRAME_SECONDS * len(streams)
        images = Counter(one.request for one in streams)
        due = {request for request in images if now >= self.requests[request].frames_at}
        for request in due:
            self.requests[request].frames_at = now + REQUEST_PACE * FRAME_SECONDS * images[request]
        return due

    def _send_snapshots(self, watched: dict[int, tuple[int, int] | None], events: list[Event]) -> None:
        """The state of one layer and head of image 0, for the requests that asked for it."""
        for one in self.scheduler.assigned.values():
            layer_and_head = watched[one.request]
            if layer_and_head is not None and one.index == 0:
                s, z = self.generator.state(one.slot, *layer_and_head)
                events.append(StateSnapshot(one.request, int(self.positions[one.slot]), s.tobytes(), z.tobytes()))

    def _retire(self, events: list[Event]) -> None:
        """Report the images that are complete and free their slots."""
        busy = np.fromiter(self.scheduler.assigned, np.int64)
        for slot in busy[self.positions[busy] == self.length].tolist():
            one = self.scheduler.assigned[slot]
            image, bits_per_dim = self.generator.image(slot), self.generator.bits_per_dim(slot)
            events.append(Finished(one.request, one.index, image.tobytes(), bits_per_dim))
            self.scheduler.release(slot)
            active = self.requests[one.request]
            active.left -= 1
            if not active.left:
                del self.requests[one.request]

    def _read(self, painted: float, events: list[Event]) -> None:
        """Read known bytes: for a share of the `painted` seconds, for a whole tick where nothing was painted."""
        while (request := self.prefixes.next_wanted()) is not None:
            self._read_prefix(self.requests[request].request)
        ended = self.reads.run(painted, TICK_SECONDS, self.scheduler.held.keys())
        self.time_shares.charge(self.reads.spent)
        for done in ended:
            request, reading = done.read.request, done.reading
            if reading is None:
                self._fail(request, events)
            elif done.read.is_score:
                events.append(Scored(request, done.read.index, reading.bits[done.row].tobytes()))
            else:
                self.prefixes.put(request, reading.prefix(done.row))
                self.scheduler.resume(request)

    def _read_prefix(self, request: GenerateRequest) -> None:
        """Queue the known front of a request's next image, for which there is room now."""
        index = self.scheduler.next_index(request.id)
        assert index is not None
        source = request.source(index)
        assert source is not None
        self.prefixes.reserve(request.id, request.client, source)
        stop = self.generator.prefix(request.image(index))
        self.reads.add(request.id, request.client, [Read(request.id, index, request.known[source], stop, False)])

    def _fail(self, request: int, events: list[Event]) -> None:
        self._drop(request)
        events.append(Failed(request, "The engine failed while it worked on this request; its log says why."))

    def _drop(self, request: int) -> None:
        """Remove a request wherever it is and free its slots; an unknown one has ended already."""
        for slot in self.scheduler.cancel(request):
            self.generator.clear(slot)
            self.positions[slot] = self.length
        self.requests.pop(request, None)
        self.refused = [event for event in self.refused if event.request != request]
        self.prefixes.drop(request)
        self.reads.drop(request)
