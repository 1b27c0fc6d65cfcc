"""A state machine: requests of every kind arrive, are cancelled and fail in any order while the engine ticks.

The machine runs the real loop over the real scheduler, generator and a tiny model. After every step each slot is
free or has one image of an open request; every accepted request ends exactly once; every finished image is that of
its seed painted alone; and no request waits longer for a slot than round robin over requests allows.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import TICK_SECONDS, Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import (
    Cancel,
    Failed,
    Finished,
    GenerateRequest,
    ImageSpec,
    Pixels,
    Scheduled,
    Scored,
    ScoreRequest,
)
from scanline.model.sampling.scheduler import SlotAssignment
from tests.support import small_models
from tests.support.tiny import GREY

SLOTS = 3
LENGTH = GREY.bytes
KNOWN = tuple(image.tobytes() for image in small_models.images(GREY, 2))
FRONT = bytes(i < 12 for i in range(LENGTH))
MIDST = bytes(i % 4 == 1 for i in range(LENGTH))
ALL = bytes([1] * LENGTH)
COMPLETIONS = st.sampled_from([((), ()), (KNOWN[:1], (FRONT,)), (KNOWN, (FRONT, MIDST)), (KNOWN, (ALL, FRONT))])
MODEL: Transformer = small_models.model(GREY)
BREAKABLE = ("prefill", "place", "advance", "positions", "image", "images", "score")


class Painted:
    """Images painted alone, each once."""

    def __init__(self) -> None:
        self.generator = Generator(MODEL, 1, threads=1)
        self.images: dict[tuple[object, ...], bytes] = {}
        self.bits = {image: self.generator.score(np.frombuffer(image, np.uint8)[None])[0].tobytes() for image in KNOWN}

    def alone(self, paint: GenerateRequest, index: int) -> bytes:
        source = paint.source(index)
        known, mask = (b"", b"") if source is None else (paint.known[source], paint.masks[source])
        key = (paint.seed, index, paint.temperature, known, mask)
        if key not in self.images:
            given = (np.frombuffer(known, np.uint8), np.frombuffer(mask, np.bool_)) if known else (None, None)
            canvas = ImageSpec(paint.seed, index, paint.temperature, *given)
            self.generator.place(0, canvas, self.generator.prefill(canvas) if canvas.prefix else None)
            self.generator.advance(LENGTH)
            self.images[key] = self.generator.image(0).tobytes()
        return self.images[key]


PAINTED = Painted()


class EngineMachine(RuleBasedStateMachine):
    """The engine, and what a client would know of it."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = Generator(MODEL, SLOTS, threads=1)
        self.engine = Engine(self.generator)
        self.open: dict[int, GenerateRequest | ScoreRequest] = {}  # accepted, not yet ended
        self.had: dict[int, set[int]] = {}  # finished images of each
        self.heard: dict[tuple[int, int], bytes] = {}  # of streamed images
        self.scheduled: set[int] = set()  # requests whose Scheduled event was sent
        self.waits: dict[int, int] = {}  # slots that others may still take before a waiting request gets one
        self.passed_over = False
        self.next = 0
        admit = self.engine.scheduler.admit

        def watched() -> SlotAssignment | None:
            if assignment := admit():
                self._scheduled(assignment.request)
            return assignment

        self.engine.scheduler.admit = watched  # type: ignore[method-assign]

    def teardown(self) -> None:
        """Whatever is left in work comes to its end, in no more ticks than it has bytes."""
        for _ in range(sum(len(images(request)) for request in self.open.values()) * LENGTH):
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
    )
    def paint(
        self,
        copies: int,
        seed: int,
        temperature: float,
        completion: tuple[tuple[bytes, ...], tuple[bytes, ...]],
        stream: bool,
    ) -> None:
        known, masks = completion
        self._accept(GenerateRequest(self.next, copies * max(1, len(known)), seed, temperature, known, masks, stream))
        self.waits[self.next - 1] = len(self.engine.scheduler.turns) - 1  # one image of each request before it

    @rule(count=st.integers(1, 3))
    def score(self, count: int) -> None:
        self._accept(ScoreRequest(self.next, (KNOWN * 2)[:count]))

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
        assert sorted([*scheduler.free, *scheduler.assigned]) == list(range(SLOTS))
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
        assert set(scheduler.turns) == set(scheduler.waiting) <= paints
        assert len(scheduler.turns) == len(scheduler.waiting)
        assert {request for request, _, _ in self.engine.to_score} == set(self.open) - paints
        for request in paints:
            assignments = [assignment for assignment in scheduler.assigned.values() if assignment.request == request]
            waiting = scheduler.waiting.get(request, ())
            assert len(assignments) + len(waiting) == self.engine.requests[request].left
            assert self.engine.requests[request].left == self.open[request].images - len(self.had[request])

    @invariant()
    def nobody_is_passed_over(self) -> None:
        assert not self.passed_over

    def _accept(self, command: GenerateRequest | ScoreRequest) -> None:
        self.engine.accept(command)
        self.open[command.id], self.had[command.id] = command, set()
        self.next += 1

    def _tick(self, steps: int, sends: bool = True, may_fail: bool = False) -> None:
        """A tick of so many steps, in which streams get frames or not; each event is one that may be sent now."""
        self.engine.last_step, self.engine.step_times = (TICK_SECONDS / (steps + 0.5), SLOTS), {}
        self.engine.frames_at = 0.0 if sends else inf
        for event in self.engine.tick():
            request = self.open[event.request]  # type: ignore[union-attr]
            match event, request:
                case Scheduled(number, seconds), GenerateRequest():
                    assert seconds >= 0
                    assert number not in self.scheduled
                    self.scheduled.add(number)
                case Pixels(number, painted), GenerateRequest(stream=True):
                    for index, first, data in painted:
                        assert len(self.heard.get((number, index), b"")) == first
                        self.heard[number, index] = self.heard.get((number, index), b"") + data
                case Finished(number, index, image), GenerateRequest():
                    assert image == PAINTED.alone(request, index)
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
        self.waits.pop(request, None)

    def _scheduled(self, request: int) -> None:
        """Round robin: before a waiting request come at most those that waited before it, one image of each."""
        unseated = self.engine.scheduler.waiting  # without those that failed earlier in this tick
        others = {waiting: left for waiting, left in self.waits.items() if waiting in unseated and waiting != request}
        self.passed_over |= 0 in others.values()
        self.waits = {waiting: left - 1 for waiting, left in others.items()}
        if request in unseated:
            self.waits[request] = len(self.engine.scheduler.turns) - 1


def images(request: GenerateRequest | ScoreRequest) -> range:
    return range(request.images if isinstance(request, GenerateRequest) else len(request.images))


@contextmanager
def breaking(generator: Generator, name: str, calls: int) -> Iterator[None]:
    """After so many calls, each one under that name fails."""
    done = itertools.count()

    def broken(*arguments: Any) -> Any:
        if next(done) >= calls:
            raise RuntimeError("It broke.")
        return getattr(type(generator), name)(generator, *arguments)

    setattr(generator, name, broken)
    try:
        yield
    finally:
        delattr(generator, name)


def test_requests_may_arrive_end_and_fail_in_any_order() -> None:
    run_state_machine_as_test(EngineMachine, settings=settings(max_examples=50, stateful_step_count=30))


@pytest.mark.slow
def test_anything_may_happen_in_many_orders() -> None:
    long = settings(max_examples=400, stateful_step_count=50, derandomize=False, print_blob=True)
    run_state_machine_as_test(EngineMachine, settings=long)
