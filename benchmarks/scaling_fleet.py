"""Many replicas under one stream of requests: fronts, routing, scaling, deaths, restarts, as events in order of time.

Invariant: every request ends exactly once, refused when it comes or answered when its last image is painted; an image
that is not painted waits at its front, or is at one replica, or, where there was none, waits for the first.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import ceil, inf
from random import Random

import numpy as np
from scaling_replica import Front, Machine, Piece, Replica, Request
from scaling_routing import ROUTERS, Serve

WATCH_SECONDS = 1.0  # between two looks at the whole fleet

# as server/cluster/replica_pool.py has them
AHEAD = 1.25  # images that a front hands out, by slots of all replicas
PIECES = 16  # into which a replica's slots are cut
SMALLEST, LARGEST = 16, 256  # images of a piece


@dataclass(frozen=True)
class Scaling:
    """Serve's autoscaler on images in flight (ray 2.60, autoscaling_policy.py): wanted = mean in flight / target."""

    target: float  # images in flight for each replica
    most: int  # replicas
    least: int = 1
    up_delay: float = 30.0
    down_delay: float = 600.0
    look_back: float = 30.0
    metrics_interval: float = 10.0


@dataclass(frozen=True)
class Faults:
    """How replicas end by themselves: after `mean_life` seconds on average, noticed `notice` seconds later."""

    mean_life: float = inf
    notice: float = 1.0


@dataclass
class Watched:
    """The fleet second by second."""

    time: list[float] = field(default_factory=list)
    images: list[int] = field(default_factory=list)  # accepted and not painted
    ready: list[int] = field(default_factory=list)  # replicas
    spread: list[float] = field(default_factory=list)  # the busiest replica's images over the mean
    refused: list[int] = field(default_factory=list)  # images so far


class Fleet:
    """Replicas of one machine, and fronts that hand out pieces while less than `ahead` of all slots is out, a piece of
    each request in turn; refused are requests that would make it more than `bound` images for each ready replica."""

    def __init__(
        self,
        machine: Machine,
        replicas: int,
        seed: int,
        router: str = "two, by pieces",
        piece: int | None = None,  # None: as large as the server would make it
        ahead: float = AHEAD,
        fronts: int = 1,
        bound: float = inf,
        start_seconds: float = 5.0,
        scaling: Scaling | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.machine, self.piece, self.ahead, self.bound = machine, piece, ahead, bound
        self.fronts = [Front() for _ in range(fronts)]
        self.start_seconds, self.scaling, self.faults = start_seconds, scaling, faults or Faults()
        self.draws = Random(seed)
        self.router = ROUTERS[router](self.draws)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self.order = count()
        self.replicas: list[Replica] = []  # all that ever were
        self.ready: list[Replica] = []  # that the router knows of
        self.to_come = 0  # replicas that start
        self.target = replicas
        self.homeless: deque[Piece] = deque()  # of lost replicas, while no other is ready
        self.requests: list[Request] = []
        self.refused: list[Request] = []
        self.unanswered = 0  # requests
        self.images = 0  # accepted and not painted
        self.seconds_of_images = 0.0  # from arrival to the last byte, all images
        self.images_refused = self.deaths = 0
        self.watched = Watched()
        self.seen: deque[int] = deque(maxlen=round(scaling.look_back / WATCH_SECONDS) if scaling else 1)
        self.mean_images, self.wanted_since = 0.0, (0, 0.0)  # direction, since when
        self.to_restart: deque[Replica] = deque()
        for _ in range(replicas):
            self._join()
        self._later(WATCH_SECONDS, self._watch)

    def run(self, times: np.ndarray, sizes: np.ndarray, until: float | None = None) -> None:
        """Requests of sizes [n] images come at times [n] seconds; on until that time, or until all are answered."""
        for time, images in zip(times.tolist(), sizes.tolist(), strict=True):
            self._until(time)
            self.now = time
            self._arrive(images)
        if until is not None:
            self._until(until)
        while until is None and self.unanswered:
            self._next()
        for replica in self.replicas:
            if not replica.is_over:
                replica.advance(self.now)

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        """Something that is to happen."""
        heapq.heappush(self.events, (time, next(self.order), action, arguments))

    def restart_all(self, at_once: int) -> None:
        """Replaces every replica of now, so many at a time: each paints what it has, ends, and a new one starts."""
        self.to_restart.extend(self.ready)
        for _ in range(at_once):
            self._restart_next()

    @property
    def painted(self) -> float:
        """Bytes, those in vain among them."""
        return sum(replica.painted for replica in self.replicas)

    @property
    def lost(self) -> float:
        """Bytes painted in vain."""
        return sum(replica.lost for replica in self.replicas)

    def steps(self) -> float:
        """Bytes of an image of the next piece."""
        return self.machine.steps

    def _later(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        self.at(self.now + seconds, action, *arguments)

    def _until(self, time: float) -> None:
        while self.events and self.events[0][0] <= time:
            self._next()
        self.now = time

    def _next(self) -> None:
        self.now, _, action, arguments = heapq.heappop(self.events)
        action(*arguments)

    def _arrive(self, images: int) -> None:
        request = Request(self.now, images)
        if self.images + images > self.bound * max(1, len(self.ready)):
            self.refused.append(request)
            self.images_refused += images
            return
        self.requests.append(request)
        self.images += images
        self.unanswered += 1
        front = self.fronts[int(self.draws.random() * len(self.fronts))]
        front.turns.append(request)
        self._hand_out(front)

    def _hand_out(self, front: Front) -> None:
        while front.turns and self.ready and front.out < self.ahead * self.machine.slots * len(self.ready):
            request = front.turns.popleft()
            piece = Piece(request, min(self._piece(request), request.unsent), self.steps(), front)
            request.unsent -= piece.images
            front.out += piece.images
            if request.unsent:
                front.turns.append(request)
            self._route(piece)

    def _piece(self, request: Request) -> int:
        """Images of a piece of it: enough for all replicas, none too small or too large."""
        if self.piece:
            return self.piece
        share = min(ceil(request.images / len(self.ready)), self.machine.slots // PIECES)
        return min(LARGEST, max(SMALLEST, share))

    def _route(self, piece: Piece) -> None:
        if not self.ready:
            self.homeless.append(piece)
            return
        replica = self.router(self.ready, piece, self.now)
        replica.add(self.now, piece)
        self._plan(replica)

    def _plan(self, replica: Replica) -> None:
        """Its next end, in place of the one that was planned."""
        replica.version += 1
        if replica.seated and not replica.is_over:
            self.at(replica.next_end(), self._end, replica, replica.version)

    def _end(self, replica: Replica, version: int) -> None:
        if replica.version != version:
            return
        for piece, images in replica.finish(self.now).items():
            self._take(replica, piece, images)
        self._plan(replica)
        if replica.is_leaving and not replica.images:
            self._leave(replica)

    def _take(self, replica: Replica, piece: Piece, images: int) -> None:
        """Images have come back to their front."""
        request, front = piece.request, piece.front
        self.images -= images
        self.seconds_of_images += images * (self.now - request.arrived)
        front.out -= images
        request.left -= images
        if not piece.left and isinstance(self.router, Serve):
            self.router.ended(replica, piece, self.now)
        if not request.left:
            request.done = self.now
            self.unanswered -= 1
        self._hand_out(front)

    # Replicas that come and go

    def _join(self) -> None:
        replica = Replica(self.machine, self.now)
        self.replicas.append(replica)
        self.ready.append(replica)
        if self.faults.mean_life < inf:
            self._later(self.draws.expovariate(1 / self.faults.mean_life), self._die, replica)
        for _ in range(len(self.homeless)):
            self._route(self.homeless.popleft())
        for front in self.fronts:
            self._hand_out(front)

    def _start(self) -> None:
        self.to_come += 1
        self._later(self.start_seconds, self._started)

    def _started(self) -> None:
        self.to_come -= 1
        if len(self.ready) < self.target:
            self._join()
        if self.to_restart:
            self._restart_next()

    def _drain(self, replica: Replica) -> None:
        """It gets no more pieces and ends when it has none."""
        self.ready.remove(replica)
        replica.is_leaving = True
        if not replica.images:
            self._leave(replica)

    def _leave(self, replica: Replica) -> None:
        replica.end(self.now)
        if len(self.ready) + self.to_come < self.target:
            self._start()

    def _die(self, replica: Replica) -> None:
        if replica.is_over:
            return
        self.deaths += 1
        replica.die(self.now)
        self._later(self.faults.notice, self._notice, replica)

    def _notice(self, replica: Replica) -> None:
        """Its pieces go elsewhere, those too that were sent to it meanwhile; another one starts."""
        if not replica.is_leaving:
            self.ready.remove(replica)
        replica.advance(self.now)
        for piece in replica.pieces:
            self._route(piece)
        replica.pieces.clear()
        if len(self.ready) + self.to_come < self.target:
            self._start()

    def _restart_next(self) -> None:
        while self.to_restart:
            replica = self.to_restart.popleft()
            if replica in self.ready:
                self._drain(replica)
                return

    # Looks at the whole

    def _watch(self) -> None:
        watched = self.watched
        watched.time.append(self.now)
        watched.images.append(self.images)
        watched.ready.append(len(self.ready))
        busiest = max((replica.images for replica in self.ready), default=0)
        watched.spread.append(busiest * len(self.ready) / self.images if self.images else 1.0)
        watched.refused.append(self.images_refused)
        if self.scaling:
            self._scale(self.scaling)
        self._later(WATCH_SECONDS, self._watch)

    def _scale(self, scaling: Scaling) -> None:
        self.seen.append(self.images)
        if round(self.now / WATCH_SECONDS) % round(scaling.metrics_interval / WATCH_SECONDS) == 0:
            self.mean_images = sum(self.seen) / len(self.seen)
        wanted = min(scaling.most, max(scaling.least, ceil(self.mean_images / scaling.target)))
        direction = (wanted > self.target) - (wanted < self.target)
        if direction != self.wanted_since[0]:
            self.wanted_since = direction, self.now
        if not direction or self.now - self.wanted_since[1] < (
            scaling.up_delay if direction > 0 else scaling.down_delay
        ):
            return
        self.wanted_since = 0, self.now
        self.target = wanted
        for _ in range(len(self.ready) - wanted):  # the least busy go first
            self._drain(min(self.ready, key=lambda replica: replica.images))
        for _ in range(wanted - len(self.ready) - self.to_come):
            self._start()
