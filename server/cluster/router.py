"""Which replica gets a piece: the one with the fewest images of this front.

Serve counts requests and draws two replicas, of which it takes the less busy by what it last heard, up to ten seconds
ago; the pieces of one large request, all given out within milliseconds, then crowd in one place. Here each handle
counts the images that it has given, as they go and come back.
"""

import heapq
import random
from asyncio import Future
from collections import Counter
from functools import partial
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica


class ByImages(RequestRouter):
    """Invariant: `images` of a replica are those of the requests `given` to it and not completed."""

    def initialize_state(self, **_: Any) -> None:
        """Nothing is given yet."""
        self.given: dict[str, tuple[ReplicaID, int]] = {}  # by request
        self.images: Counter[ReplicaID] = Counter()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The least busy one, and the next for where that cannot take it."""
        busy = [(self.images[one.replica_id], random.random(), place) for place, one in enumerate(candidate_replicas)]
        chosen = [candidate_replicas[place] for _, _, place in heapq.nsmallest(2, busy)]
        if chosen and pending_request is not None:
            self._give(pending_request, chosen[0].replica_id)  # before others choose
            pending_request.routing_context.should_backoff = True  # where neither takes it
            pending_request.future.add_done_callback(partial(self._settled, pending_request))
        return [[one] for one in chosen]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """It went there, whichever was chosen first."""
        self._give(pending_request, replica_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Done, failed or cancelled."""
        self._end(internal_request_id)

    def _settled(self, request: PendingRequest, future: Future[RunningReplica]) -> None:
        if future.cancelled():
            self._end(request.metadata.internal_request_id)

    def _give(self, request: PendingRequest, replica: ReplicaID) -> None:
        number = request.metadata.internal_request_id
        self._end(number)
        count = len(request.args[0].indices) if request.args and hasattr(request.args[0], "indices") else 1
        self.given[number] = replica, count
        self.images[replica] += count

    def _end(self, number: str) -> None:
        if number in self.given:
            replica, count = self.given.pop(number)
            self.images[replica] -= count
            if not self.images[replica]:
                del self.images[replica]
