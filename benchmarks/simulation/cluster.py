"""Many replicas under one stream of requests, with ingresses, routing, scaling, deaths and restarts, as timed events.

Invariant: every request ends exactly once, refused when it arrives or answered when its last image is painted; an
unpainted image waits at its ingress, is at one replica, or is orphaned until a replica is ready.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import ceil, inf
from random import Random

import numpy as np

from benchmarks.simulation.autoscaler import SAMPLE_SECONDS, Autoscaler, Scaling
from benchmarks.simulation.replica import Ingress, Machine, Replica, Request, Shard
from benchmarks.simulation.routing import ROUTERS, Serve

# as server/cluster/replica_pool.py has them
OVERCOMMIT = 1.25  # images handed out for each slot
SHARDS_PER_REPLICA = 16  # that fill its slots
MIN_SHARD, MAX_SHARD = 16, 256  # images of a shard


@dataclass(frozen=True)
class Faults:
    """Replicas die after `mean_lifetime` seconds on average; the cluster notices `notice` seconds later."""

    mean_lifetime: float = inf
    notice: float = 1.0


@dataclass
class Watched:
    """One sample a second."""

    time: list[float] = field(default_factory=list)
    images: list[int] = field(default_factory=list)  # accepted and not painted
    ready: list[int] = field(default_factory=list)  # replicas
    spread: list[float] = field(default_factory=list)  # the busiest replica's images over the mean


class Cluster:
    """Replicas of one machine type behind ingresses.

    Ingresses hand out shards, one of each request in turn, while fewer images than `overcommit` times all slots are
    out. A request that would make more than `bound` images for each ready replica is refused.
    """

    def __init__(
        self,
        machine: Machine,
        replicas: int,
        seed: int,
        router: str = "two, by shards",
        shard: int | None = None,  # None: as large as the server would make it
        overcommit: float = OVERCOMMIT,
        ingresses: int = 1,
        bound: float = inf,
        start_seconds: float = 5.0,
        scaling: Scaling | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.machine, self.shard, self.overcommit, self.bound = machine, shard, overcommit, bound
        self.ingresses = [Ingress() for _ in range(ingresses)]
        self.start_seconds, self.faults = start_seconds, faults or Faults()
        self.autoscaler = Autoscaler(scaling) if scaling else None
        self.draws = Random(seed)
        self.router = ROUTERS[router](self.draws)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self.order = count()
        self.replicas: list[Replica] = []  # past ones included
        self.ready: list[Replica] = []  # in the router's view
        self.to_come = 0  # replicas that are starting
        self.target = replicas
        self.orphaned: deque[Shard] = deque()  # of lost replicas, while no other is ready
        self.requests: list[Request] = []
        self.refused: list[Request] = []
        self.unanswered = 0  # requests
        self.images = 0  # accepted and not painted
        self.seconds_of_images = 0.0  # from arrival to the last byte, all images
        self.images_refused = self.deaths = 0
        self.watched = Watched()
        self.to_restart: deque[Replica] = deque()
        for _ in range(replicas):
            self._join()
        self._later(SAMPLE_SECONDS, self._watch)

    def run(self, times: np.ndarray, sizes: np.ndarray, until: float | None = None) -> None:
        """Simulate requests of sizes [n] images at times [n] seconds, until `until` or until all are answered."""
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
        """Schedule an event."""
        heapq.heappush(self.events, (time, next(self.order), action, arguments))

    def restart_all(self, at_once: int) -> None:
        """Replace every present replica, so many at a time: each finishes what it has, exits, and a new one starts."""
        self.to_restart.extend(self.ready)
        for _ in range(at_once):
            self._restart_next()

    @property
    def painted(self) -> float:
        """Bytes painted, lost ones included."""
        return sum(replica.painted for replica in self.replicas)

    @property
    def lost(self) -> float:
        """Bytes painted by replicas that died before the image was finished."""
        return sum(replica.lost for replica in self.replicas)

    def steps(self) -> float:
        """Bytes of each image of the next shard; a subclass may draw them."""
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
        ingress = self.ingresses[int(self.draws.random() * len(self.ingresses))]
        ingress.turns.append(request)
        self._hand_out(ingress)

    def _hand_out(self, ingress: Ingress) -> None:
        while ingress.turns and self.ready and ingress.out < self.overcommit * self.machine.slots * len(self.ready):
            request = ingress.turns.popleft()
            shard = Shard(request, min(self._shard_size(request), request.unsent), self.steps(), ingress)
            request.unsent -= shard.images
            ingress.out += shard.images
            if request.unsent:
                ingress.turns.append(request)
            self._route(shard)

    def _shard_size(self, request: Request) -> int:
        """Images in a shard of the request, as ReplicaPool computes them."""
        if self.shard:
            return self.shard
        share = min(ceil(request.images / len(self.ready)), self.machine.slots // SHARDS_PER_REPLICA)
        return min(MAX_SHARD, max(MIN_SHARD, share))

    def _route(self, shard: Shard) -> None:
        if not self.ready:
            self.orphaned.append(shard)
            return
        replica = self.router(self.ready, shard, self.now)
        replica.add(self.now, shard)
        self._plan(replica)

    def _plan(self, replica: Replica) -> None:
        """Schedule the replica's next finished image, in place of the one planned before."""
        replica.version += 1
        if replica.running and not replica.is_over:
            self.at(replica.next_end(), self._end, replica, replica.version)

    def _end(self, replica: Replica, version: int) -> None:
        if replica.version != version:
            return
        for shard, images in replica.finish(self.now).items():
            self._return(replica, shard, images)
        self._plan(replica)
        if replica.is_leaving and not replica.images:
            self._leave(replica)

    def _return(self, replica: Replica, shard: Shard, images: int) -> None:
        """Images have returned to their ingress."""
        request, ingress = shard.request, shard.ingress
        self.images -= images
        self.seconds_of_images += images * (self.now - request.arrived)
        ingress.out -= images
        request.left -= images
        if not shard.left and isinstance(self.router, Serve):
            self.router.ended(replica, shard, self.now)
        if not request.left:
            request.done = self.now
            self.unanswered -= 1
        self._hand_out(ingress)

    def _join(self) -> None:
        replica = Replica(self.machine, self.now)
        self.replicas.append(replica)
        self.ready.append(replica)
        if self.faults.mean_lifetime < inf:
            self._later(self.draws.expovariate(1 / self.faults.mean_lifetime), self._die, replica)
        for _ in range(len(self.orphaned)):
            self._route(self.orphaned.popleft())
        for ingress in self.ingresses:
            self._hand_out(ingress)

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
        """Send it no more shards; it exits when it has none."""
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
        """Route its shards elsewhere, those sent to it since its death included, and start another replica."""
        if not replica.is_leaving:
            self.ready.remove(replica)
        replica.advance(self.now)
        for shard in replica.shards:
            self._route(shard)
        replica.shards.clear()
        if len(self.ready) + self.to_come < self.target:
            self._start()

    def _restart_next(self) -> None:
        while self.to_restart:
            replica = self.to_restart.popleft()
            if replica in self.ready:
                self._drain(replica)
                return

    def _watch(self) -> None:
        watched = self.watched
        watched.time.append(self.now)
        watched.images.append(self.images)
        watched.ready.append(len(self.ready))
        busiest = max((replica.images for replica in self.ready), default=0)
        watched.spread.append(busiest * len(self.ready) / self.images if self.images else 1.0)
        if self.autoscaler:
            self._scale(self.autoscaler.target(self.now, self.images, self.target))
        self._later(SAMPLE_SECONDS, self._watch)

    def _scale(self, target: int) -> None:
        if target == self.target:
            return
        self.target = target
        for _ in range(len(self.ready) - target):  # the least busy go first
            self._drain(min(self.ready, key=lambda replica: replica.images))
        for _ in range(target - len(self.ready) - self.to_come):
            self._start()
