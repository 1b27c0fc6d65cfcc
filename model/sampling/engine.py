"""The engine's tick: admit, step, deliver, retire; one image is scored beside each.

Knows the generator and the scheduler, not the process or the pipe: commands come in by `accept`, events go
out in one list a tick.
"""

import logging
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from scanline.model.sampling.errors import fatal
from scanline.model.sampling.generator import Generator, ImageSpec, Prefix
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
from scanline.model.sampling.scheduler import Scheduler, SlotAssignment
from scanline.model.sampling.stats import StatsRecorder

log = logging.getLogger("scanline.engine")

TICK_SECONDS = 0.025  # short enough for smooth streams and prompt departures, long beside a tick's own cost
MOST_STEPS = 32
FRAME_SECONDS = 0.0005  # between two frames, all streams together: ten times what one costs the API's side


@dataclass
class Request:
    """A request in progress: what is left of it, and the prefixes its waiting images will start from."""

    paint: GenerateRequest
    left: int
    prefixes: dict[int, Prefix] = field(default_factory=dict)
    accepted: float = field(default_factory=time.monotonic)

    def index(self, seat: SlotAssignment) -> int:
        """Which image of the request a seat's is: seats count those that are wanted."""
        return self.paint.indices[seat.index]


class Engine:
    """Invariant between ticks: every seat's request is in `requests`, and the generator has its image."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.scheduler = Scheduler(generator.slots)
        self.meter = StatsRecorder(generator.slots, generator.config.bytes)
        self.requests: dict[int, Request] = {}
        self.to_score: deque[tuple[int, int, bytes]] = deque()
        self.told: dict[int, int] = {}  # bytes already sent of every streamed image, by slot
        self.watched: dict[int, tuple[int, int]] = {}  # the layer and head whose state is told, by slot
        self.tell_at = 0.0  # when streams are told again
        self.step_seconds, self.images = TICK_SECONDS, 1  # of the last steps, and how many images they were for

    @property
    def idle(self) -> bool:
        return not self.requests and not self.to_score

    def accept(self, command: GenerateRequest | ScoreRequest | Cancel) -> None:
        """Takes a command; what it asks for happens in the ticks to come."""
        match command:
            case GenerateRequest():
                self.requests[command.request] = Request(command, len(command.indices))
                self.scheduler.add(command.request, len(command.indices))
            case ScoreRequest():
                self.to_score.extend((command.request, i, command.images[i]) for i in command.indices)
            case Cancel():
                self._forget(command.request)

    def stats(self) -> Stats:
        """What is in work now and what has been done."""
        requests = len(self.requests) + len({request for request, _, _ in self.to_score})
        running = 0 if self.idle else self.meter.batch
        return self.meter.report(requests, running, self.scheduler.waiting + len(self.to_score))

    def tick(self) -> list[Event]:
        """One turn; what fails in it fails its requests and the engine goes on, but what is fatal is raised."""
        events: list[Event] = []
        try:
            self._admit(events)
            self._step()
            self._deliver(events)
        except Exception as error:
            if fatal(error):
                raise
            log.exception("painting failed; its requests fail with it")
            for request in list(self.requests):
                self._fail(request, events)
        self._score_one(events)
        return events

    def _admit(self, events: list[Event]) -> None:
        """Seats images until slots or images run out, or one prefix had to be run: the others' streams go on."""
        prefilled = False
        while not prefilled and (seat := self.scheduler.admit()):
            first = seat.request not in self.meter.running
            try:
                prefilled = self._place(seat)
            except Exception as error:
                if fatal(error):
                    raise
                log.exception("an image could not be placed; its request fails")
                self._fail(seat.request, events)
                continue
            if first:
                events.append(Scheduled(seat.request, time.monotonic() - self.requests[seat.request].accepted))

    def _place(self, seat: SlotAssignment) -> bool:
        """Starts a seat's image; True where its known front had to be run first."""
        request = self.requests[seat.request]
        paint, index = request.paint, request.index(seat)
        source = paint.source(index)
        if source is None:
            canvas = ImageSpec(paint.seed, index, paint.temperature)
        else:
            known = np.frombuffer(paint.known[source], np.uint8)
            mask = np.frombuffer(paint.masks[source], np.bool_)
            canvas = ImageSpec(paint.seed, index, paint.temperature, known, mask)
        prefix, prefilled = None, False
        if source is not None and canvas.prefix:
            if source not in request.prefixes:
                request.prefixes = {source: self.generator.prefill(canvas)}  # images come in order of source
                prefilled = True
            prefix = request.prefixes[source]
        self.generator.place(seat.slot, canvas, prefix)
        self.meter.seated(seat.request, request.accepted, seat.slot, canvas.prefix)
        if paint.stream:
            self.told[seat.slot] = 0
        if paint.trace and index == 0:
            self.watched[seat.slot] = paint.trace
        return prefilled

    def _step(self) -> None:
        """As many steps as fit a tick, by how long the last ones took, and longer where there are more images now."""
        self.meter.batch = images = len(self.scheduler.seats)
        if not images:
            return
        each = self.step_seconds * max(1.0, images / self.images)
        steps = max(1, min(MOST_STEPS, int(TICK_SECONDS / each)))
        began = time.perf_counter()
        self.generator.advance(steps)
        self.step_seconds, self.images = (time.perf_counter() - began) / steps, images
        self.meter.stepped(steps, self.step_seconds, images)

    def _deliver(self, events: list[Event]) -> None:
        """Tells the bytes painted since, and retires the images that are done."""
        positions = self.generator.positions()
        self.meter.painted(positions)
        if self.told:
            self._tell(positions.tolist(), events)
        for slot, (layer, head) in self.watched.items():
            s, z = self.generator.state(slot, layer, head)
            request = self.scheduler.seats[slot].request
            events.append(StateSnapshot(request, int(positions[slot]), s.tobytes(), z.tobytes()))
        busy = np.fromiter(self.scheduler.seats, np.int64)
        for slot in busy[positions[busy] == self.generator.config.bytes].tolist():
            seat, image = self.scheduler.seats[slot], self.generator.image(slot).tobytes()
            index, bits = self.requests[seat.request].index(seat), self.generator.bits_per_dim(slot)
            events.append(Finished(seat.request, index, image, bits))
            self._retire(seat)

    def _tell(self, positions: list[int], events: list[Event]) -> None:
        """Streams hear of their first and last bytes at once, of others each tick or, where they are many, seldom."""
        due, length = time.monotonic() >= self.tell_at, self.generator.config.bytes
        if due:
            self.tell_at = time.monotonic() + FRAME_SECONDS * len(self.told)
        fresh = [slot for slot, told in self.told.items() if positions[slot] > told]
        slots = fresh if due else [slot for slot in fresh if not self.told[slot] or positions[slot] == length]
        painted: dict[int, list[tuple[int, int, bytes]]] = {}
        for slot, image in zip(slots, self.generator.images(slots), strict=True):
            seat, first, stop = self.scheduler.seats[slot], self.told[slot], positions[slot]
            index = self.requests[seat.request].index(seat)
            painted.setdefault(seat.request, []).append((index, first, image[first:stop].tobytes()))
            self.told[slot] = stop
        events += [Pixels(request, frames) for request, frames in painted.items()]

    def _retire(self, seat: SlotAssignment) -> None:
        request = self.requests[seat.request]
        self.scheduler.release(seat.slot)
        self._empty(seat.slot)
        request.left -= 1
        if not request.left:
            del self.requests[seat.request]
            self.meter.ended(seat.request)

    def _empty(self, slot: int) -> None:
        """A slot whose image is done or whose request nobody waits for."""
        self.generator.clear(slot)
        self.meter.cleared(slot)
        self.told.pop(slot, None)
        self.watched.pop(slot, None)

    def _score_one(self, events: list[Event]) -> None:
        if not self.to_score:
            return
        request, index, image = self.to_score.popleft()
        try:
            bits = self.generator.score(np.frombuffer(image, np.uint8)[None])[0]
            events.append(Scored(request, index, bits.tobytes()))
        except Exception as error:
            if fatal(error):
                raise
            log.exception("scoring failed; its request fails")
            self._fail(request, events)

    def _fail(self, request: int, events: list[Event]) -> None:
        self._forget(request)
        events.append(Failed(request, "The engine failed while it worked on this request; its log says why."))

    def _forget(self, request: int) -> None:
        """Drops a request wherever it stands and frees its slots; unknown ones are done already."""
        for slot in self.scheduler.cancel(request):
            self._empty(slot)
        self.requests.pop(request, None)
        self.meter.ended(request)
        if any(waiting[0] == request for waiting in self.to_score):
            self.to_score = deque(waiting for waiting in self.to_score if waiting[0] != request)
