"""Routing of shards: of the replicas with a shard's model, the one with the fewest images.

Serve's default router counts requests, and picks the less busy of two random replicas by
counts that are up to ten seconds old; the shards of one large request, all sent within
milliseconds, then crowd on one replica. This router counts the slots of the images that its
own handle has sent, as they go and come back.

A replica whose machine is cut off or stands still is a candidate until Serve gives it up. A
shard comes with a `Route`, by which the pool of this process records what replicas send. One
with shards that has sent nothing for some time is chosen last, and so is it for a while
after its shards were taken from it.

Replicas report the digests of their model and its class head every few seconds. A replica that has
not reported yet may get any shard, and refuses those of another model itself.

Requests of clients go to an ingress of the machine that they are connected to, where it has one.
"""

import heapq
import random
from asyncio import Future
from collections import Counter
from functools import partial
from math import inf
from time import monotonic
from typing import Any

from ray.serve.request_router import (
    FIFOMixin,
    LocalityMixin,
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

from scanline.model.sampling.base.messages import GenerateRequest, ScoreRequest

DIGEST = "digest"  # the name of what a replica reports
# without a message, of which there is one every five: the replica is chosen last
QUIET_SECONDS = 15.0
FORGET_SECONDS = 60.0  # without a message: it is chosen like the others again
# of more replicas, so many are compared for a shard: as even, to a shard or two, at a constant cost
CANDIDATES = 32


class FewestImagesRouter(RequestRouter):
    """Invariant: `images` of a replica is the sum over the requests
    `assigned` to it and not completed.
    """

    def initialize_state(self, **_: Any) -> None:
        """Start with nothing assigned."""
        self.assigned: dict[str, tuple[ReplicaID, int]] = {}  # replica and images, by request
        self.images: Counter[ReplicaID] = Counter()
        # the last of each replica with shards, or of one that is quiet
        self.signs: dict[ReplicaID, float] = {}

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return the best replica, and the next one in case it does not accept.

        Where only replicas of another model are left, one of them is
        chosen, and its refusal ends the wait.
        """
        wanted = (
            getattr(pending_request.args[0], "digest", "")
            if pending_request and pending_request.args
            else ""
        )
        candidates = candidate_replicas
        if len(candidates) > CANDIDATES:
            candidates = random.sample(candidates, CANDIDATES)
            if all(_has_another_model(replica, wanted) for replica in candidates):
                candidates = candidate_replicas
        order = [
            (
                _has_another_model(replica, wanted),
                self._is_quiet(id),
                self.images[id],
                random.random(),
                place,
            )
            for place, (replica, id) in enumerate(
                (replica, replica.replica_id) for replica in candidates
            )
        ]
        chosen = [candidates[place] for *_, place in heapq.nsmallest(2, order)]
        if chosen and pending_request is not None:
            # Counted now, not when it is routed: other shards are routed in between.
            self._assign(pending_request, chosen[0].replica_id)
            pending_request.routing_context.should_backoff = True  # where neither accepts
            pending_request.future.add_done_callback(
                partial(self._routed_or_cancelled, pending_request)
            )
        return [[replica] for replica in chosen]

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Take in the replicas that Serve has now, and forget the others."""
        super().update_replicas(replicas)
        for lost in self.signs.keys() - self.curr_replicas.keys():
            del self.signs[lost]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """Count the request at the replica that accepted it, which may be the second choice."""
        self._assign(pending_request, replica_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Remove a request that is done, failed or cancelled from the counts."""
        self._complete(internal_request_id)

    def _routed_or_cancelled(self, request: PendingRequest, future: Future[RunningReplica]) -> None:
        if future.cancelled():
            self._complete(request.metadata.internal_request_id)

    def _assign(self, request: PendingRequest, replica: ReplicaID) -> None:
        number = request.metadata.internal_request_id
        self._complete(number)
        command = request.args[0] if request.args else None
        count = command.slots if isinstance(command, GenerateRequest | ScoreRequest) else 1
        self.assigned[number] = replica, count
        self.images[replica] += count
        now = monotonic()
        if now - self.signs.get(replica, -inf) >= FORGET_SECONDS:
            self.signs[replica] = now
        if route := request.kwargs.get("route"):
            route.signs = self.signs
            route.replica = replica

    def _complete(self, number: str) -> None:
        if number in self.assigned:
            replica, count = self.assigned.pop(number)
            self.images[replica] -= count
            if not self.images[replica]:
                del self.images[replica]
                if not self._is_quiet(replica):
                    self.signs.pop(replica, None)

    def _is_quiet(self, replica: ReplicaID) -> bool:
        now = monotonic()
        return QUIET_SECONDS < now - self.signs.get(replica, now) < FORGET_SECONDS


class NearestRouter(FIFOMixin, LocalityMixin, RequestRouter):
    """The less busy of two random ingresses, of this machine as long as it has one: the loss of
    another machine breaks no connection of its clients. Serve's own router takes any ingress once
    one here needs 0.1 s to say how busy it is.
    """

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return two of the nearest."""
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True  # where neither accepts
        nearest = next(filter(None, self.rank_replicas_via_locality(candidate_replicas)), [])
        return [random.sample(nearest, min(2, len(nearest)))]


def _has_another_model(replica: RunningReplica, wanted: str) -> bool:
    return not str(replica.routing_stats.get(DIGEST, wanted)).startswith(wanted)
