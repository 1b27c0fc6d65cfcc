"""Replicas under one stream of requests, with ingresses, routing and an autoscaler that adds replicas, as timed events.

Invariant: every request is answered exactly once, when its last image is painted; an unpainted image waits at its
ingress or is at one replica.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import ceil
from random import Random

import numpy as np

from benchmarks.simulation.autoscaler import SAMPLE_SECONDS, Autoscaler, Scaling
from benchmarks.simulation.replica import Ingress, Machine, Replica, Request, Shard
from benchmarks.simulation.routing import ROUTERS, Serve

# as server/cluster/replica_pool.py has them
OVERCOMMIT = 1.25  # images handed out for each slot
SHARDS_PER_REPLICA = 16  # that fill its slots
MIN_SHARD, MAX_SHARD = 16, 256  # images of a shard


@dataclass
class Watched:
    """One sample a second."""

    images: list[int] = field(default_factory=list)  # that are not painted
    replicas: list[int] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)  # the busiest replica's images over the mean


class Cluster:
    """Replicas of one machine type behind ingresses.

    Ingresses hand out shards, one of each request in turn, while fewer images than `overcommit` times all slots are
    out.
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
        start_seconds: float = 5.0,
        scaling: Scaling | None = None,
    ) -> None:
        self.machine, self.shard, self.overcommit = machine, shard, overcommit
        self.ingresses = [Ingress() for _ in range(ingresses)]
        self.start_seconds = start_seconds
        self.autoscaler = Autoscaler(scaling) if scaling else None
        self.draws = Random(seed)
        self.router = ROUTERS[router](self.draws)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self.order = count()
        self.replicas: list[Replica] = []
        self.target = replicas  # those that are starting included
        self.requests: list[Request] = []
        self.unanswered = 0  # requests
        self.images = 0  # that are not painted
        self.seconds_of_images = 0.0  # from arrival to the last byte, all images
        self.watched = Watched()
        for _ in range(replicas):
            self._join()
        self._later(SAMPLE_SECONDS, self._watch)

    def run(self, times: np.ndarray, sizes: np.ndarray) -> None:
        """Simulate requests of sizes [n] images at times [n] seconds until all are answered."""
        for time, images in zip(times.tolist(), sizes.tolist(), strict=True):
            while self.events and self.events[0][0] <= time:
                self._next()
            self.now = time
            self._arrive(images)
        while self.unanswered:
            self._next()
        for replica in self.replicas:
            replica.advance(self.now)

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        """Schedule an event."""
        heapq.heappush(self.events, (time, next(self.order), action, arguments))

    @property
    def painted(self) -> float:
        """Steps of images that are done."""
        return sum(replica.painted for replica in self.replicas)

    def steps(self) -> float:
        """Steps of each image of the next shard; a subclass may draw them."""
        return self.machine.steps

    def _later(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        self.at(self.now + seconds, action, *arguments)

    def _next(self) -> None:
        self.now, _, action, arguments = heapq.heappop(self.events)
        action(*arguments)

    def _arrive(self, images: int) -> None:
        request = Request(self.now, images)
        self.requests.append(request)
        self.images += images
        self.unanswered += 1
        ingress = self.ingresses[int(self.draws.random() * len(self.ingresses))]
        ingress.turns.append(request)
        self._hand_out(ingress)

    def _hand_out(self, ingress: Ingress) -> None:
        while ingress.turns and ingress.out < self.overcommit * self.machine.slots * len(self.replicas):
            request = ingress.turns.popleft()
            shard = Shard(request, min(self._shard_size(request), request.unsent), self.steps(), ingress)
            request.unsent -= shard.images
            ingress.out += shard.images
            if request.unsent:
                ingress.turns.append(request)
            replica = self.router(self.replicas, shard, self.now)
            replica.add(self.now, shard)
            self._plan(replica)

    def _shard_size(self, request: Request) -> int:
        """Images in a shard of the request, as ReplicaPool computes them."""
        if self.shard:
            return self.shard
        share = min(ceil(request.images / len(self.replicas)), self.machine.slots // SHARDS_PER_REPLICA)
        return min(MAX_SHARD, max(MIN_SHARD, share))

    def _plan(self, replica: Replica) -> None:
        """Schedule the replica's next finished image, in place of the one planned before."""
        replica.version += 1
        if replica.running:
            self.at(replica.next_end(), self._end, replica, replica.version)

    def _end(self, replica: Replica, version: int) -> None:
        if replica.version != version:
            return
        for shard, images in replica.finish(self.now).items():
            self._return(replica, shard, images)
        self._plan(replica)

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
        self.replicas.append(Replica(self.machine, self.now))
        for ingress in self.ingresses:
            self._hand_out(ingress)

    def _watch(self) -> None:
        watched = self.watched
        watched.images.append(self.images)
        watched.replicas.append(len(self.replicas))
        busiest = max(replica.images for replica in self.replicas)
        watched.spread.append(busiest * len(self.replicas) / self.images if self.images else 1.0)
        if self.autoscaler:
            target = self.autoscaler.target(self.now, self.images, self.target)
            for _ in range(target - self.target):
                self._later(self.start_seconds, self._join)
            self.target = target
        self._later(SAMPLE_SECONDS, self._watch)
