"""A state machine: requests of every kind arrive, are cancelled and fail in any order while the engine ticks.

The machine runs the real loop over the real scheduler, generator and a tiny model. After every step each slot is
free or has one image of an open request; every accepted request ends exactly once; every finished image is that of
its seed painted alone; no more prefixes are held than there is room for; and neither a client nor a request of the same
client has two turns while another one waits for a slot.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import SlotPool
from scanline.model.formats.code_file import Codes
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import (
    Cancel,
    Failed,
    Finished,
    GenerateRequest,
    Pixels,
    Scheduled,
    Scored,
    ScoreRequest,
)
from scanline.model.sampling.prefill.queue import PASS_SECONDS
from scanline.model.sampling.scheduler import Scheduler, SlotAssignment
from scanline.model.sampling.stats.tick_length import TICK_SECONDS
from tests.support import small_models
from tests.support.engine.painted_alone import PaintedAlone, breaking
from tests.support.engine.turn_order import FairTurns
from tests.support.tiny import GREY

SLOTS = 3
LENGTH = GREY.bytes
KNOWN = tuple(image.tobytes() for image in small_models.images(GREY, 2))
PREFIX = bytes(i < 12 for i in range(LENGTH))
MIDST = bytes(i % 4 == 1 for i in range(LENGTH))
ALL = bytes([1] * LENGTH)
COMPLETIONS = st.sampled_from([((), ()), (KNOWN[:1], (PREFIX,)), (KNOWN, (PREFIX, MIDST)), (KNOWN, (ALL, PREFIX))])
MODEL: Transformer = small_models.model(GREY)
BREAKABLE = ("start_prefill", "run_prefill", "place_many", "start", "resample", "choose", "fetch")
CLIENTS = st.sampled_from("abc")
PAINTED = PaintedAlone(MODEL, KNOWN, SLOTS)


class EngineMachine(RuleBasedStateMachine):
    """The engine, and what a client would know of it."""

    generator_class = Generator
    most_particles = 1

    def __init__(self) -> None:
        super().__init__()
        self.generator = self.generator_class(MODEL, SLOTS, threads=1)
        self.generator.backend.prefill_images = 2
        # What happens must not depend on time: each look at the clock takes a quarter of a pass, as does painting; what
        # prefills have of it is a tick's share.
        self.engine = Engine(self.generator, clock=itertools.count(0, PASS_SECONDS / 4).__next__)
        prefills, advance = self.engine.prefills, self.generator.backend.advance

        def timed(pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
            advance(pool, slots, steps).wait()
            return Pending.ended(PASS_SECONDS / 4)

        self.generator.backend.advance = timed  # type: ignore[method-assign]
        run = prefills.run
        prefills.run = lambda painted, *other: run(None if painted is None else TICK_SECONDS, *other)  # type: ignore[method-assign]
        self.open: dict[int, GenerateRequest | ScoreRequest] = {}  # accepted, not yet ended
        self.had: dict[int, set[int]] = {}  # finished images of each
        self.heard: dict[tuple[int, int], bytes] = {}  # of streamed images
        self.restarted: list[tuple[int, int]] = []  # images that lost their slot and have not begun again
        self.scheduled: set[int] = set()  # requests whose Scheduled event was sent
        self.between_clients: FairTurns[str] = FairTurns()
        self.between_requests: dict[str, FairTurns[int]] = {client: FairTurns() for client in "abc"}
        self.unfair: list[str] = []
        self.next = 0
        scheduler = self.engine.scheduler
        admit, reclaim = scheduler.admit, scheduler.reclaim

        def watched() -> SlotAssignment | None:
            having_turns = {client: list(requests) for client, requests in scheduler.turns.clients.items()}
            if assignment := admit():
                client = self.open[assignment.request].client
                try:
                    self.between_clients.turn(client, having_turns)
                    self.between_requests[client].turn(assignment.request, having_turns[client])
                except AssertionError as error:  # the engine would take it for a failure of its own
                    self.unfair.append(str(error))
            return assignment

        def watched_reclaim() -> Iterator[tuple[SlotAssignment, SlotAssignment]]:
            for victim, assigned in reclaim():
                assert self.open[victim.request].client != self.open[assigned.request].client
                # Its stream starts anew, and so does the order of turns: the client that took the slot had one early.
                self.restarted.append((victim.request, victim.index))
                self.between_clients, self.between_requests = FairTurns(), {client: FairTurns() for client in "abc"}
                yield victim, assigned

        scheduler.admit, scheduler.reclaim = watched, watched_reclaim  # type: ignore[method-assign]

    def teardown(self) -> None:
        """Whatever is left in work comes to its end, in about as many ticks as it has bytes."""
        for _ in range(sum(len(images(request)) for request in self.open.values()) * (LENGTH + 2)):
            if not self.engine.idle:
                self._tick(steps=1)
        assert self.engine.idle
        assert not self.open
        assert sorted(self.engine.scheduler.free) == list(range(SLOTS))
        self.generator.close()

    @rule(
        copies=st.integers(1, 7),
        seed=st.integers(0, 2),
        temperature=st.sampled_from([1.0, 0.6]),
        completion=COMPLETIONS,
        stream=st.booleans(),
        client=CLIENTS,
        particles=st.integers(1, SLOTS),
    )
    def paint(
        self,
        copies: int,
        seed: int,
        temperature: float,
        completion: tuple[tuple[bytes, ...], tuple[bytes, ...]],
        stream: bool,
        client: str,
        particles: int,
    ) -> None:
        known, masks = completion
        images = copies * max(1, len(known))
        request = GenerateRequest(self.next, images, seed, temperature, known, masks, stream=stream, client=client)
        self._accept(replace(request, particles=min(particles, self.most_particles)))

    @rule(
        count=st.integers(1, 5),
        length=st.integers(1, 3),
        wanted=st.sets(st.integers(0, 4)),
        stream=st.booleans(),
        client=CLIENTS,
    )
    def decode(self, count: int, length: int, wanted: set[int], stream: bool, client: str) -> None:
        groups = [range(first, min(first + length, count)) for first in range(0, count, length)]
        codes = Codes(tuple(PAINTED.code([KNOWN[i % len(KNOWN)] for i in group]) for group in groups), length)
        only = tuple(sorted(i for i in wanted if i < count)) or None
        self._accept(GenerateRequest(self.next, count, 0, codes=codes, only=only, stream=stream, client=client))

    @rule(count=st.integers(1, 3), client=CLIENTS)
    def score(self, count: int, client: str) -> None:
        self._accept(ScoreRequest(self.next, (KNOWN * 2)[:count], client=client))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A client disconnects: it gets no further event, and its slots are free at once."""
        request = data.draw(st.sampled_from(sorted(self.open)))
        self.engine.accept(Cancel(request))
        self._forget(request)
        assert all(assignment.request != request for assignment in self.engine.scheduler.assigned.values())

    @precondition(lambda self: self.next)
    @rule(data=st.data())
    def leave_late(self, data: st.DataObject) -> None:
        """A cancel that crosses the end of its request changes nothing."""
        request = data.draw(st.integers(0, self.next))
        if request not in self.open:
            self.engine.accept(Cancel(request))

    @rule(steps=st.integers(1, 32), sends=st.booleans())
    def tick(self, steps: int, sends: bool) -> None:
        self._tick(steps, sends)

    @rule(ticks=st.integers(2, 40))
    def many_ticks(self, ticks: int) -> None:
        for _ in range(ticks):
            self._tick(steps=1)

    @rule(name=st.sampled_from(BREAKABLE), calls=st.integers(0, 2), steps=st.integers(1, 32))
    def tick_that_breaks(self, name: str, calls: int, steps: int) -> None:
        """The generator fails at what it is asked for under that name, perhaps not the first time."""
        with breaking(self.generator, name, calls):
            self._tick(steps, may_fail=True)

    @invariant()
    def every_slot_is_free_or_seats_one_image_of_an_open_request(self) -> None:
        scheduler = self.engine.scheduler
        assert sorted([*scheduler.free, *slots_of(scheduler)]) == list(range(SLOTS))
        assert slots_of(scheduler) == np.flatnonzero(scheduler.is_busy).tolist()
        assigned = [(assignment.request, assignment.index) for assignment in scheduler.assigned.values()]
        assert len(set(assigned)) == len(assigned)
        for request, index in assigned:
            assert request in self.open
            assert index not in self.had[request]

    @invariant()
    def nothing_is_kept_of_a_request_that_has_ended(self) -> None:
        scheduler = self.engine.scheduler
        paints = {number for number, request in self.open.items() if isinstance(request, GenerateRequest)}
        assert set(self.engine.requests) == paints
        assert set(scheduler.waiting) <= paints
        assert sorted([*scheduler.turns, *scheduler.on_hold]) == sorted(scheduler.waiting)
        assert set(self.engine.prefills.left) - paints == set(self.open) - paints
        assert set(self.engine.prefills.left) <= set(self.open)
        for request in paints:
            assignments = [assignment for assignment in scheduler.assigned.values() if assignment.request == request]
            waiting = scheduler.waiting.get(request, ())
            in_flight = self.engine.in_flight.finished if self.engine.in_flight else []
            undelivered = sum(assignment.request == request for assignment in in_flight)
            if self.engine.requests[request].decoding is None:  # else some wait for those before them
                assert len(assignments) + len(waiting) + undelivered == self.engine.requests[request].left
            assert self.engine.requests[request].left == len(images(self.open[request])) - len(self.had[request])

    @invariant()
    def a_request_on_hold_waits_for_its_prefix_and_one_with_turns_has_it(self) -> None:
        scheduler, prefixes = self.engine.scheduler, self.engine.admission.prefixes
        assert len(prefixes.held) <= prefixes.room == 1
        being_read = {
            request for request, held in prefixes.held.items() if not all(each.is_ready for each in held.values())
        }
        assert {*prefixes.wanted, *being_read} == set(scheduler.on_hold)
        assert being_read <= set(self.engine.prefills.left)
        assert set(prefixes.held) - being_read <= set(scheduler.turns)

    @invariant()
    def turns_are_fair(self) -> None:
        """Between images of one slot: those of several take turns by their slots, as the scheduler's own tests say."""
        if self.most_particles > 1:
            return
        assert not self.unfair
        clients = self.engine.scheduler.turns.clients
        self.between_clients.waiting(clients)
        for client, fair in self.between_requests.items():
            fair.waiting(clients.get(client, ()))

    def _accept(self, command: GenerateRequest | ScoreRequest) -> None:
        self.engine.accept(command)
        self.open[command.id], self.had[command.id] = command, set()
        self.next += 1

    def _tick(self, steps: int, sends: bool = True, may_fail: bool = False) -> None:
        """A tick of so many steps, in which streams get frames or not; each event is one that may be sent now."""
        tick_length = self.engine.tick_length
        tick_length.last, tick_length.by_size = (TICK_SECONDS / (steps + 0.5), SLOTS), {}
        self.engine.streams.frames_at = 0.0 if sends else inf
        for event in self.engine.tick():
            request = self.open[event.request]  # type: ignore[union-attr]
            match event, request:
                case Scheduled(number, seconds), GenerateRequest():
                    assert seconds >= 0
                    assert number not in self.scheduled
                    self.scheduled.add(number)
                case Pixels(number, painted), GenerateRequest(stream=True):
                    for index, first, data in painted:
                        if self.heard.get((number, index)) and not first:
                            self.restarted.remove((number, index))
                            self.heard[number, index] = b""
                        assert len(self.heard.get((number, index), b"")) == first
                        self.heard[number, index] = self.heard.get((number, index), b"") + data
                case Finished(number, index, image), GenerateRequest():
                    assert image == (PAINTED.alone(request, index) if request.codes is None else KNOWN[index % 2])
                    assert not request.stream or self.heard[number, index] == image
                    self._ended(number, index)
                case Scored(number, index, bits), ScoreRequest():
                    assert bits == PAINTED.bits[request.images[index]]
                    self._ended(number, index)
                case Failed(number), _:
                    assert may_fail
                    self._forget(number)
                case _:
                    raise AssertionError(event)

    def _ended(self, request: int, index: int) -> None:
        assert index not in self.had[request]
        self.had[request].add(index)
        if self.had[request] == set(images(self.open[request])):
            self._forget(request)

    def _forget(self, request: int) -> None:
        del self.open[request], self.had[request]


def slots_of(scheduler: Scheduler) -> list[int]:
    """The slots that are assigned, each once for every image that has it."""
    return sorted(slot for one in scheduler.assigned.values() for slot in one.slots)


def images(request: GenerateRequest | ScoreRequest) -> Sequence[int]:
    return request.indices
