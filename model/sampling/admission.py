"""Which images start in a tick: the free slots, those taken back, and the prefixes that images start from.

An image starts in all of its slots at once, from one prefix. What cannot be placed fails its own request.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from scanline.model.sampling.errors import unrecoverable
from scanline.model.sampling.generator import Generator, Prefix
from scanline.model.sampling.messages import Event, GenerateRequest, ImageSpec, Scheduled
from scanline.model.sampling.particles import checks
from scanline.model.sampling.prefixes import Prefixes
from scanline.model.sampling.reads import Read, Reads
from scanline.model.sampling.scheduler import Scheduler, SlotAssignment
from scanline.model.sampling.stats.engine_stats import StatsRecorder

log = logging.getLogger("scanline.engine")


@dataclass
class ActiveRequest:
    """A GenerateRequest of which not all images have been sent."""

    request: GenerateRequest
    left: int  # images that have not been sent
    accepted: float = field(default_factory=time.monotonic)
    is_scheduled: bool = False  # its first image has had a slot


@dataclass(frozen=True, slots=True)
class Placement:
    """An image that is to start in its slots."""

    assignment: SlotAssignment
    specs: tuple[ImageSpec, ...]  # one for each slot
    prefix: Prefix | None


class Admission:
    """Invariant between ticks: a request with waiting images has turns iff the prefix of the next one is there or not
    needed."""

    def __init__(self, generator: Generator, reads: Reads, recorder: StatsRecorder) -> None:
        self.generator, self.reads, self.recorder = generator, reads, recorder
        self.requests: dict[int, ActiveRequest] = {}
        self.scheduler = Scheduler(generator.slots, self._slots_of)
        self.prefixes = Prefixes(generator.slots)
        # of every slot after the steps started; N: empty
        self.positions = np.full(generator.slots, generator.config.bytes)

    def add(self, request: GenerateRequest) -> None:
        """Queue the images of a request."""
        self.requests[request.id] = active = ActiveRequest(request, len(request.indices))
        self.scheduler.add(request.id, request.indices, request.client)
        self._prepare_next(active)

    def drop(self, request: int) -> None:
        """Forget a request, if it is there, and free its slots."""
        self._clear(self.scheduler.cancel(request))
        self.requests.pop(request, None)
        self.prefixes.drop(request)

    def admit(self, events: list[Event], fail: Callable[[int, list[Event]], None]) -> None:
        """Fill free slots until slots or images run out, then let clients that have too few take slots of others."""
        placed: dict[int, Placement] = {}  # by first slot: an image may lose its slots before it is placed
        self._admit(placed)
        freed: set[int] = set()
        for victim, assignment in self.scheduler.reclaim(self.positions):
            freed.update(victim.slots)
            if _is_in(placed, victim):
                del placed[victim.slot]
            if self.scheduler.next_index(victim.request) == victim.index:  # it had no waiting images before
                self._prepare_next(self.requests[victim.request])
            if not _is_in(placed, assignment):  # which may have taken the slots of several
                placed[assignment.slot] = self._placement(assignment)
        if freed:
            self._admit(placed)
            self._clear([slot for slot in freed if not self.scheduler.is_busy[slot]])
        if placed:
            self._place(list(placed.values()), events, fail)

    def read_prefixes(self) -> None:
        """Queue the known fronts of the next images of requests, as long as there is room for them."""
        while (number := self.prefixes.next_wanted()) is not None:
            request, index = self.requests[number].request, self.scheduler.next_index(number)
            assert index is not None
            source, spec = request.source(index), request.image(index)
            assert source is not None
            self.prefixes.reserve(request.id, request.client, source)
            known, stop = request.known[source], self.generator.prefix(spec)
            self.reads.add(request.id, request.client, [Read(request.id, index, known, stop, False, spec.label)])

    def put_prefix(self, request: int, prefix: Prefix) -> None:
        """Give a request its turns again, with the prefix of its next image."""
        self.prefixes.put(request, prefix)
        self.scheduler.resume(request)

    def _slots_of(self, request: int, index: int) -> int:
        its = self.requests[request].request
        return its.slots_of(index) if its.particles > 1 or its.is_guided else 1

    def _admit(self, placed: dict[int, Placement]) -> None:
        while assignment := self.scheduler.admit():
            placed[assignment.slot] = self._placement(assignment)

    def _clear(self, slots: list[int]) -> None:
        """Empty slots that were freed before their images were complete."""
        if slots:
            self.generator.clear(slots)
            self.positions[slots] = self.generator.config.bytes

    def _placement(self, assignment: SlotAssignment) -> Placement:
        """Take the prefix that an image starts from, where it has one, and prepare for the next of its request."""
        active = self.requests[assignment.request]
        request, index = active.request, assignment.index
        spec, source = request.image(index), request.source(index)
        specs: tuple[ImageSpec, ...] = (spec,)
        known = self.generator.prefix(spec)
        prefix = self.prefixes.start_from(request.id, source) if source is not None and known else None
        self.positions[assignment.slot] = position = known or self.generator.config.first
        if assignment.others:
            self.positions[list(assignment.others)] = position
        if request.is_guided:
            assignment.is_guided = True
            specs += (replace(spec, label=0),)
        elif assignment.others:
            assert spec.mask is not None
            assignment.checks = tuple(checks(spec.mask, self.generator.config))
            specs += tuple(request.image(index, number) for number, _ in enumerate(assignment.others, 1))
        self._prepare_next(active)
        return Placement(assignment, specs, prefix)

    def _place(
        self, placements: list[Placement], events: list[Event], fail: Callable[[int, list[Event]], None]
    ) -> None:
        """Start images in their slots, all at once; where that fails, request by request, to fail the one at fault."""
        try:
            self._start(placements, events)
        except Exception as error:
            if unrecoverable(error):
                raise
            requests = list(dict.fromkeys(one.assignment.request for one in placements))
            if len(requests) > 1:
                for request in requests:
                    self._place([one for one in placements if one.assignment.request == request], events, fail)
                return
            log.exception("images could not be placed; their request fails")
            fail(requests[0], events)

    def _start(self, placements: list[Placement], events: list[Event]) -> None:
        """Start images in their slots, and report the requests of which they are the first."""
        slots = [slot for one in placements for slot in one.assignment.slots]
        specs = [spec for one in placements for spec in one.specs]
        prefixes = [one.prefix for one in placements for _ in one.specs]
        self.generator.place_many(slots, specs, prefixes)
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


def _is_in(placed: dict[int, Placement], assignment: SlotAssignment) -> bool:
    """Whether an image is among those that are to start."""
    return assignment.slot in placed and placed[assignment.slot].assignment is assignment
