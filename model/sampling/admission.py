"""Admission: the images that start in a tick, in free slots and in those taken
from other clients, and their prefixes.

An image starts in all of its slots at once, from one prefix. An image that
cannot be placed fails its own request.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil

import numpy as np

from scanline.model.backends.cpu import CpuBackend
from scanline.model.sampling.active_request import ActiveRequest
from scanline.model.sampling.assignment import SlotAssignment
from scanline.model.sampling.base.errors import unrecoverable
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Event, Finished, GenerateRequest, Scheduled
from scanline.model.sampling.base.prefill_state import Prefix
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.prefill.prefixes import Prefixes
from scanline.model.sampling.prefill.queue import PrefillQueue
from scanline.model.sampling.prefill.request import PrefillRequest
from scanline.model.sampling.prefix_tree import PrefixTree
from scanline.model.sampling.scheduler import Scheduler
from scanline.model.sampling.stats.engine_stats import StatsRecorder
from scanline.model.sampling.stats.tick_length import MAX_STEPS

log = logging.getLogger("scanline.engine")

STARTED = 256  # images in a tick, at least: some milliseconds of the host
LOOKED_AT = 256  # waiting images of a request, to run their prefixes ahead
# The same where the host steps, which waits meanwhile: at least so many, and for so long.
FEW = 16
STARTING_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Placement:
    """An image that is to start in its slots."""

    assignment: SlotAssignment
    specs: tuple[ImageSpec, ...]  # one for each slot
    prefixes: list[Prefix | None]  # one for each slot


class Admission:
    """Invariant between ticks: a request with waiting images has turns iff the prefix of the
    next one is there or not needed."""

    def __init__(
        self,
        generator: Generator,
        scheduler: Scheduler,
        requests: dict[int, ActiveRequest],
        prefills: PrefillQueue,
        recorder: StatsRecorder,
    ) -> None:
        self.generator = generator
        self.scheduler = scheduler
        self.requests = requests
        self.prefills = prefills
        self.recorder = recorder
        self.prefixes = Prefixes(generator.slots)
        # By request: what it waited for, and how much room was taken, when its
        # waiting images were looked at last.
        self.looked_at: dict[int, tuple[int | None, int, int]] = {}
        # A device that works on its own would wait for the host where thousands of
        # images begin in one tick, and so end in one: at most twice as many begin as end
        # in a tick when they are spread evenly.
        evenly = ceil(generator.slots * MAX_STEPS / generator.config.steps)
        self.most = max(STARTED, 2 * evenly) if generator.is_asynchronous else FEW
        # Without a start token, the first byte is drawn when an image is placed.
        backend = generator.backend
        self.tree: PrefixTree | None = None
        if isinstance(backend, CpuBackend) and not generator.config.first:
            self.tree = PrefixTree(generator.config, backend)

    def add(self, request: GenerateRequest) -> None:
        """Queue the images of a request."""
        active = ActiveRequest.of(request, self.generator.config)
        self.requests[request.id] = active
        self.scheduler.add(request.id, active.first, request.client)
        self._prepare_next(active)

    def drop(self, request: int) -> None:
        """Forget a request, if it is there, and free its slots."""
        self.generator.clear(self.scheduler.cancel(request))
        self.requests.pop(request, None)
        self.prefixes.drop(request)

    def admit(self, events: list[Event], fail: Callable[[int, list[Event]], None]) -> None:
        """Fill free slots until slots or images run out, or as many start as may in a tick; then
        let clients that have too few take slots of others."""
        # by image: one may lose its slots before it is placed
        placed: dict[tuple[int, int], Placement] = {}
        failed: set[int] = set()  # requests, which fail alone
        self._fill(placed, failed)
        freed: set[int] = set()
        for victim, assignment in self.scheduler.reclaim():
            freed.update(victim.slots)
            placed.pop(victim.image, None)
            with self._failing_alone(victim.request, failed):
                # it had no waiting images before
                if self.scheduler.next_index(victim.request) == victim.index:
                    self._prepare_next(self.requests[victim.request])
            if assignment.image not in placed:  # which may have taken the slots of several
                self._prepare(assignment, placed, failed)
        # More slots may have been taken than were needed: others get them,
        # and the generator forgets the rest.
        if freed:
            self._fill(placed, failed)
            self.generator.clear([slot for slot in freed if not self.scheduler.is_busy[slot]])
        for request in failed:
            fail(request, events)
        if starting := [
            placement for placement in placed.values() if placement.assignment.request not in failed
        ]:
            self._place(starting, events, fail)

    def queue_prefixes(self, events: list[Event], fail: Callable[[int, list[Event]], None]) -> None:
        """Queue the prefixes of the next images of requests, as long as there is room for them, and
        then of the images behind these, where the backend runs several at once."""
        failed: set[int] = set()
        while (number := self.prefixes.next_wanted()) is not None:
            with self._failing_alone(number, failed):
                index = self.scheduler.next_index(number)
                assert index is not None
                self._queue_prefix(self.requests[number].request, index)
        if most := self.generator.backend.prefill_images - 1:
            before = self.looked_at
            self.looked_at = {}
            for number in [*self.prefixes.held]:
                waiting = len(self.scheduler.waiting.get(number, ()))
                waits_for = self.scheduler.next_index(number), waiting, self.prefixes.used
                self.looked_at[number] = waits_for
                if waits_for != before.get(number):
                    with self._failing_alone(number, failed):
                        self._queue_ahead(self.requests[number].request, most)
        for number in failed:
            fail(number, events)

    def _queue_ahead(self, request: GenerateRequest, most: int) -> None:
        """Queue the prefixes of images that wait behind the next one of a
        request, whose prefix has its room.
        """
        first, *later = self.scheduler.next_indices(request.id, LOOKED_AT)
        if not self._has_room(request, first):
            return
        for index in later:
            if not self.prefixes.may_prefill_ahead(request.id, most):
                return
            if not self._has_room(request, index):
                self._queue_prefix(request, index)

    def _has_room(self, request: GenerateRequest, index: int) -> bool:
        """Return whether the prefix of image `index` has its room, or the image needs none."""
        source = self._source(request, index)
        return source is None or self.prefixes.has_room_for(request.id, source)

    def _source(self, request: GenerateRequest, index: int) -> int | None:
        """Return the known image whose prefix image `index` starts from; None where it needs none."""
        return request.source(index) if self._prefix(request, index) else None

    def _prefix(self, request: GenerateRequest, index: int) -> int:
        """Return how many bytes of image `index` are run before it
        starts: known ones of whole steps.
        """
        known = request.prefix_of(index)
        return known - known % self.generator.config.step_bytes

    def _queue_prefix(self, request: GenerateRequest, index: int) -> None:
        source = request.source(index)
        assert source is not None
        labels = request.kind_of(index).labels(request.label_of(index))
        self.prefixes.reserve(request.id, request.client, source, labels)
        known = request.known[source]
        stop = self._prefix(request, index)
        prefills = [
            PrefillRequest(request.id, index, known, stop, is_score=False, label=label)
            for label in labels
        ]
        self.prefills.add(request.id, request.client, prefills)

    def put_prefix(self, prefill: PrefillRequest, prefix: Prefix) -> None:
        """Keep a prefix, if an image of its request still waits for it, and give the request its
        turns again where that was what its next image needs."""
        if (active := self.requests.get(prefill.request)) is None:
            return
        source = active.request.source(prefill.index)
        assert source is not None
        self.prefixes.put(prefill.request, source, prefill.label, prefix)
        if prefill.request in self.scheduler.on_hold:
            self._prepare_next(active)

    def note_finished(self, finished: Sequence[Finished]) -> None:
        """Let later images start from what finished ones have in common; grow the
        tree for it, a little at a time.
        """
        if self.tree is None:
            return
        try:
            for image in finished:
                active = self.requests[image.request]
                kind = active.kind_of(image.index)
                if kind.may_share_beginnings:
                    spec = active.request.image(image.index)
                    self.tree.add(spec, kind.labels(spec.label), image.image)
            self.tree.insert()
        except Exception as error:
            self._drop_tree(error)

    def _drop_tree(self, error: Exception) -> None:
        """Go on without the prefix tree, which only saves time."""
        if unrecoverable(error, self.generator.synchronize):
            raise error
        log.exception("the prefix tree failed and is dropped")
        self.tree = None

    def queue_following(self, ended: SlotAssignment, read: np.ndarray) -> None:
        """Queue the image that could not be painted before `ended` was complete, if there
        is one. read: as Kind.following."""
        if ended.request not in self.requests:
            return
        following = ended.kind.following(ended.index, read)
        if following is not None:
            self.scheduler.append(ended.request, following, ended.client)

    def _fill(self, placed: dict[tuple[int, int], Placement], failed: set[int]) -> None:
        until = 0.0 if self.generator.is_asynchronous else time.monotonic() + STARTING_SECONDS
        while len(placed) < self.most or time.monotonic() < until:
            if (assignment := self.scheduler.admit()) is None:
                break
            self._prepare(assignment, placed, failed)

    def _prepare(
        self, assignment: SlotAssignment, placed: dict[tuple[int, int], Placement], failed: set[int]
    ) -> None:
        """Add to `placed` an image that has its slots, unless its
        request has failed or fails with it.
        """
        if assignment.request not in failed:
            with self._failing_alone(assignment.request, failed):
                placed[assignment.image] = self._placement(assignment)

    def _placement(self, assignment: SlotAssignment) -> Placement:
        """Take the prefix that an image starts from, where it has one, and
        prepare for the next of its request.
        """
        active = self.requests[assignment.request]
        request = active.request
        index = assignment.index
        kind = assignment.kind
        specs = kind.specs(request.image(index))
        assignment.label = specs[0].label
        assignment.checks = kind.checks(specs[0], self.generator.config)
        source = self._source(request, index)
        prefixes: list[Prefix | None] = [None] * len(specs)
        if source is not None:
            # Each slot has its own, or all have the same one.
            held = self.prefixes.start_from(request.id, source)
            prefixes = [*held] * (len(specs) // len(held))
        elif self.tree is not None and kind.may_share_beginnings:
            try:
                prefixes = self.tree.match(kind, specs)
            except Exception as error:
                self._drop_tree(error)
        for slot, prefix in zip(assignment.slots, prefixes, strict=True):
            self.scheduler.positions[slot] = (
                self.generator.config.first if prefix is None else prefix.position
            )
        self._prepare_next(active)
        return Placement(assignment, specs, prefixes)

    def _place(
        self, placed: list[Placement], events: list[Event], fail: Callable[[int, list[Event]], None]
    ) -> None:
        """Start images in their slots, all at once; where that fails, request by
        request, to fail the one at fault.
        """
        try:
            self._start(placed, events)
        except Exception as error:
            if unrecoverable(error, self.generator.synchronize):
                raise
            requests = list(dict.fromkeys(placement.assignment.request for placement in placed))
            if len(requests) > 1:
                for request in requests:
                    self._place(
                        [
                            placement
                            for placement in placed
                            if placement.assignment.request == request
                        ],
                        events,
                        fail,
                    )
                return
            log.exception("images could not be placed; their request fails")
            fail(requests[0], events)

    def _start(self, placements: list[Placement], events: list[Event]) -> None:
        """Start images in their slots, and report the requests of which they are the first."""
        slots = [slot for placement in placements for slot in placement.assignment.slots]
        specs = [spec for placement in placements for spec in placement.specs]
        self.generator.place_many(
            slots, specs, [prefix for placement in placements for prefix in placement.prefixes]
        )
        starts = [placement.prefixes[0] for placement in placements]
        for start in starts:
            if start is None:
                self.recorder.drawn_bytes += self.generator.config.first
            elif start.painted:
                self.recorder.drawn_bytes += start.position
                self.recorder.done.shared_bytes += start.position
            else:
                self.recorder.done.known_bytes += start.position
        for request in dict.fromkeys(placement.assignment.request for placement in placements):
            active = self.requests[request]
            if not active.is_scheduled:
                active.is_scheduled = True
                events.append(Scheduled(request, self.recorder.scheduled(active.accepted)))

    def _prepare_next(self, active: ActiveRequest) -> None:
        """Hold a request until the prefix that its next image
        needs is there; else give it turns.
        """
        request = active.request
        index = self.scheduler.next_index(request.id)
        if index is None:
            self.prefixes.drop(request.id)
            return
        source = self._source(request, index)
        self.prefixes.move_on(request.id, source)
        if source is None or self.prefixes.is_ready(request.id, source):
            self.scheduler.resume(request.id)
            return
        self.scheduler.hold(request.id)
        if not self.prefixes.has_room_for(request.id, source):
            self.prefixes.want(request.id, request.client)

    @contextmanager
    def _failing_alone(self, request: int, failed: set[int]) -> Iterator[None]:
        """Log an exception of work for one request, and add that to
        `failed`; raise an unrecoverable one.
        """
        try:
            yield
        except Exception as error:
            if unrecoverable(error, self.generator.synchronize):
                raise
            log.exception("an image could not start; its request fails")
            failed.add(request)
