"""The prefill queue: known bytes that are run through the network at once, of images to score
and of the prefixes of completions.

Prefills take turns as slots do, round robin over clients and then over a client's requests;
a client whose prefills took longer than those of others waits until these have caught up.
While images are painted prefills have their clients' equal shares of the engine's time, at
most a quarter; all of it while none are. Several are run in one pass where the backend
gains by it. A pass is much shorter than a tick: where a backend gives the same bits either
way, an image is prefilled in chunks.

A device that works on its own is given passes behind the steps of the last tick and before those of
the next, so that it never waits for the host, which takes their results a tick later.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from math import inf

import numpy as np

from scanline.model.backends.pending import Pending
from scanline.model.sampling.base.errors import unrecoverable
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.prefill_state import PrefillState
from scanline.model.sampling.base.round_robin import RoundRobin
from scanline.model.sampling.prefill.request import EndedPrefill, PrefillRequest
from scanline.model.sampling.stats.time_shares import TimeShares

log = logging.getLogger("scanline.engine")

SHARE = 0.25  # of the engine's time at most, while images are painted
PASS_SECONDS = 0.008  # a third of a tick, so that each tick has one pass


@dataclass(frozen=True)
class Pass:
    """A chunk of a batch that the device has been given."""

    batch: list[PrefillRequest]
    state: PrefillState
    steps: int
    is_last: bool  # of its batch
    clients: list[str]  # whose images it runs, once for each image
    began: float
    host_seconds: float  # of starting it
    expected: float  # seconds, which have been taken from the credit
    seconds: Pending[float]  # of the device


@dataclass(frozen=True)
class Scores:
    """How many requests for likelihoods, and images of theirs, are in progress. A
    request runs once an image does.
    """

    requests_running: int
    requests_waiting: int
    images_running: int
    images_waiting: int


class PrefillQueue:
    """Invariant: a request has turns iff it has prefills that have not begun;
    `left` counts those not yet ended.
    """

    def __init__(
        self, generator: Generator, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.generator = generator
        self.clock = clock
        self.turns = RoundRobin()
        self.waiting: dict[int, deque[PrefillRequest]] = {}  # by request
        self.left: dict[int, int] = {}  # prefills of each request that have not ended
        self.client_of: dict[int, str] = {}  # by request, as long as it has prefills left
        self.spent: dict[str, float] = {}  # seconds of the last `run`, by client
        self.time_shares = TimeShares(PASS_SECONDS)  # of the clients that have prefills
        self.begun: set[int] = set()  # requests of which one prefill has begun
        # of a batch that failed: one at a time, to find the one at fault
        self.alone: deque[PrefillRequest] = deque()
        self.batch: list[PrefillRequest] = []  # what is being run now
        self.state: PrefillState | None = None
        self.passes: deque[Pass] = deque()  # that have been started and not waited for
        self.credit = 0.0  # seconds that may be spent while images are painted
        self.longest_pass = PASS_SECONDS
        self.images_at_once = generator.backend.prefill_images
        # Of the last pass.
        self.step_seconds = PASS_SECONDS / generator.backend.prefill_steps
        self.step_images = 1
        self.image_seconds = 0.0  # its time for each of its images
        self.pass_seconds = 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing is to be prefilled, and the device has no pass of
        requests that were dropped meanwhile.
        """
        return not self.left and not self.passes

    def add(self, request: int, client: str, prefills: Sequence[PrefillRequest]) -> None:
        """Queue more prefills of a client's request, all of them of one kind."""
        if request not in self.waiting:
            self.turns.join(request, client)
        self.waiting.setdefault(request, deque()).extend(prefills)
        self.left[request] = self.left.get(request, 0) + len(prefills)
        self.client_of[request] = client

    def drop(self, request: int) -> None:
        """Forget a request, if it is there. One that is being run
        stays in its batch, for the others.
        """
        self.turns.leave(request)
        self.waiting.pop(request, None)
        self.left.pop(request, None)
        self.client_of.pop(request, None)
        self.begun.discard(request)
        self.alone = deque(prefill for prefill in self.alone if prefill.request != request)
        if not any(prefill.request in self.left for prefill in self.batch):
            self.batch = []
            self.state = None

    def run(
        self, painted: float | None, idle_seconds: float, painting: Set[str] = frozenset()
    ) -> list[EndedPrefill]:
        """Prefill for a share of the time after `painted` seconds of painting
        the images of the clients `painting`.

        Where nothing is painted (None), prefill for `idle_seconds`, or until a prefix is
        there, so that painting can begin. Passes that a device does on its own have
        ended by then, or when `end` returns.
        """
        self.spent = {}
        ended = [] if painted is None else self._end_passes()
        share = self._share(painting)
        # What was not spent is lost, but for one pass: a long time without
        # prefills is no reason for a long pause.
        self.credit = (
            0.0
            if painted is None
            else min(self.credit, PASS_SECONDS) + painted * share / (1 - share)
        )
        most_waiting = inf if self.generator.is_asynchronous else 0
        if self.generator.is_asynchronous and painted is None:
            # a device that has nothing else to do gets a second pass before the first is waited for
            most_waiting = 1
        began = self.clock()
        while self._may_pass(painted):
            ended += self._start_pass()
            while len(self.passes) > most_waiting:
                ended += self._end_pass()
            prefix_ready = any(not outcome.prefill.is_score for outcome in ended)
            if painted is None and (prefix_ready or self.clock() - began >= idle_seconds):
                return ended
        return ended if painted is not None else ended + self._end_passes()

    def end(self) -> list[EndedPrefill]:
        """Wait for the passes that have been started; return the prefills that ended with them."""
        self.spent = {}
        return self._end_passes()

    def _may_pass(self, painted: float | None) -> bool:
        """Return whether there is something to prefill, and time for it."""
        if self.state is None and not self.alone and not self.waiting:
            return False
        return painted is None or self.credit >= min(self.pass_seconds, PASS_SECONDS)

    def scores(self) -> Scores:
        """Return what there is to score now."""
        waiting = [queued for queued in self.waiting.values() if queued[0].is_score]
        last = [prefill for started in self.passes if started.is_last for prefill in started.batch]
        begun = [
            prefill.request for prefill in (*last, *self.batch, *self.alone) if prefill.is_score
        ]
        in_progress = [request for request in begun if request in self.left]
        requests = {queued[0].request for queued in waiting} | set(in_progress)
        running = len(requests & self.begun)
        return Scores(running, len(requests) - running, len(in_progress), sum(map(len, waiting)))

    def _share(self, painting: Set[str]) -> float:
        """Return the share of the time that prefills may have while
        clients paint: equal for each client.
        """
        clients = set(self.client_of.values())
        return min(SHARE, len(clients) / len(clients | painting)) if clients and painting else SHARE

    def _start_pass(self) -> list[EndedPrefill]:
        """Start to run one chunk of the current batch, or of the next one;
        return the prefills of one that fails.
        """
        began = self.clock()
        if self.state is None:
            self.batch = self._next_batch()
        # Requests that were cancelled since are still in the batch, and pay nothing.
        clients = [
            self.client_of[prefill.request]
            for prefill in self.batch
            if prefill.request in self.left
        ]
        try:
            if self.state is None:
                self.state = self._begun_batch()
            state = self.state
            before = state.position
            seconds = self.generator.run_prefill(state, self._steps_of_pass())
        except Exception as error:
            if unrecoverable(error, self.generator.synchronize):
                raise
            self._charge(self.clock() - began, clients)
            return self._fail(self.batch, self.state)
        steps = (state.position - before) // self.generator.config.step_bytes
        expected = self.pass_seconds or PASS_SECONDS
        self.credit -= expected
        host_seconds = self.clock() - began
        started = Pass(
            self.batch, state, steps, state.done, clients, began, host_seconds, expected, seconds
        )
        self.passes.append(started)
        if state.done:
            self.batch = []
            self.state = None
        return []

    def _begun_batch(self) -> PrefillState:
        """Return the state from which the images of the current batch are run."""
        batch = self.batch
        images = np.stack([np.frombuffer(prefill.image, np.uint8) for prefill in batch])
        stops = [prefill.stop for prefill in batch]
        labels = [prefill.label for prefill in batch]
        tolerances = [prefill.tolerance for prefill in batch]
        return self.generator.start_prefill(images, stops, labels, tolerances, batch[0].reading)

    def _steps_of_pass(self) -> int:
        """Return as many steps as fit into a pass, judged by the last
        one, in whole tiles of the kernel.
        """
        tile = self.generator.backend.prefill_steps
        step_seconds = self.step_seconds * max(1.0, len(self.batch) / self.step_images)
        steps = int(self.longest_pass / step_seconds)
        return max(tile, steps - steps % tile)

    def _end_passes(self) -> list[EndedPrefill]:
        ended: list[EndedPrefill] = []
        while self.passes:
            ended += self._end_pass()
        return ended

    def _end_pass(self) -> list[EndedPrefill]:
        """Wait for the first of the passes; return what ended with it."""
        first = self.passes.popleft()
        self.credit += first.expected
        try:
            seconds = first.seconds.wait()
        except Exception as error:
            if unrecoverable(error, self.generator.synchronize):
                raise
            self._charge(self.clock() - first.began, first.clients)
            return self._fail(first.batch, first.state)
        whole = self.clock() - first.began
        # Of a device that works on its own, the time of a pass is not the
        # time until its result is asked for.
        self.pass_seconds = (
            max(seconds, first.host_seconds) if self.generator.is_asynchronous else whole
        )
        self._charge(self.pass_seconds, first.clients)
        if first.steps and not first.state.has_own_pace:
            self.image_seconds = self.pass_seconds / len(first.batch)
            self.step_seconds = self.pass_seconds / first.steps
            self.step_images = len(first.batch)
        return self._end_batch(first) if first.is_last else []

    def _charge(self, seconds: float, clients: list[str]) -> None:
        """Let the clients of the images that were run pay for a pass, in equal parts an image."""
        self.credit -= seconds
        for client in clients:
            self.spent[client] = self.spent.get(client, 0.0) + seconds / len(clients)
        if clients:
            self.time_shares.spent(seconds, Counter(clients))

    def _next_batch(self) -> list[PrefillRequest]:
        """Take prefills in turn: as many as the backend runs at once, or,
        where it runs them whole, in a pass.
        """
        if self.alone:
            return [self.alone.popleft()]
        most: float = self.images_at_once
        if not self.generator.backend.prefills_in_chunks and self.image_seconds:
            most = min(most, max(1, int(PASS_SECONDS / self.image_seconds)))
        batch: list[PrefillRequest] = []
        clients = self.time_shares.next(dict.fromkeys(self.client_of.values(), 1))
        # all that they asked for has begun: others need not wait for it
        if clients.isdisjoint(self.turns.clients):
            clients = {*self.turns.clients}
        while len(batch) < most and (
            allowed := [client for client in self.turns.clients if client in clients]
        ):
            request = self.turns.next_of(allowed[0])
            waiting = self.waiting[request]
            reading = waiting[0].reading
            if batch and reading != batch[0].reading:
                break
            most = min(most, reading.run.images_at_once)
            batch.append(waiting.popleft())
            self.begun.add(request)
            self.turns.end_turn(request)
            if not waiting:
                self.turns.leave(request)
                del self.waiting[request]
        return batch

    def _fail(self, batch: list[PrefillRequest], state: PrefillState | None) -> list[EndedPrefill]:
        """Queue the images of a batch that failed to be run one at a time;
        fail the request of a single one.
        """
        log.exception("the prefill of %s images failed", len(batch))
        for later in [later for later in self.passes if later.batch is batch]:  # its later chunks
            self.passes.remove(later)
            self.credit += later.expected
        if self.state is state:
            self.batch = []
            self.state = None
        left = [prefill for prefill in batch if prefill.request in self.left]
        if len(batch) > 1:
            self.alone.extend(left)
            return []
        for prefill in left:
            self.drop(prefill.request)
        return [EndedPrefill(prefill, None) for prefill in left]

    def _end_batch(self, last: Pass) -> list[EndedPrefill]:
        """End a batch; return its prefills without those of requests that were dropped."""
        ended = [
            EndedPrefill(prefill, last.state, row)
            for row, prefill in enumerate(last.batch)
            if prefill.request in self.left
        ]
        for request in (outcome.prefill.request for outcome in ended):
            self.left[request] -= 1
            if not self.left[request]:
                del self.left[request], self.client_of[request]
                self.begun.discard(request)
        return ended
