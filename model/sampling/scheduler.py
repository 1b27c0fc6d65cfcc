"""Which image gets a slot next: round robin over clients, then over a client's requests. Owns slots, no tensor.

An image holds one slot from its first byte to its last. Slots are shared fairly between clients, not between requests:
beside one client with a thousand requests, another one with a single request gets every second slot that becomes free.
Where all slots are taken, a client that waits with less than an equal share of them takes slots from the client that
holds most: images of which least is painted go back into the queue, and start anew later, from their seed.
Among the requests of one client each gets a slot in turn, whatever their sizes, so that a request for one image is not
behind one for thousands. The lowest free slot is used first, so that busy slots lie together.

A request on hold keeps its images and has no turns; it takes them up again behind the others.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scanline.model.sampling.turns import Turns


@dataclass
class SlotAssignment:
    """An image of a request in a slot."""

    slot: int
    request: int
    index: int  # of the image in its request
    client: str = ""
    sent: int = 0  # bytes of it already sent to its stream


class Scheduler:
    """Invariant: every slot is either free or assigned to one image; a request has turns iff it has waiting images and
    is not on hold."""

    def __init__(self, slots: int) -> None:
        self.free = list(range(slots))
        self.assigned: dict[int, SlotAssignment] = {}  # by slot
        self.is_busy = np.zeros(slots, np.bool_)  # which slots are assigned
        self.slots_of: dict[int, set[int]] = {}  # by request
        self.held: Counter[str] = Counter()  # slots of each client that holds any
        self.slots = slots
        self.turns = Turns()
        self.waiting: dict[int, deque[int]] = {}  # image indices without a slot, by request
        self.on_hold: dict[int, str] = {}  # client, by request

    def add(self, request: int, indices: Sequence[int], client: str = "") -> None:
        """Queue the images `indices` of a client's request."""
        assert indices
        assert request not in self.waiting
        self.waiting[request] = deque(indices)
        self.turns.join(request, client)

    def admit(self) -> SlotAssignment | None:
        """Assign a slot to the next image; None where no slot is free or no image has a turn."""
        if not self.free or (request := self.turns.next()) is None:
            return None
        return self._assign(request)

    def reclaim(self, painted: np.ndarray) -> Iterator[tuple[SlotAssignment, SlotAssignment]]:
        """Give slots of the clients that hold most to those that wait with less than their share of all slots.

        `painted` [slots] is how much of every slot's image is painted. Yield what held a slot, which waits behind the
        images of its request, and what holds it now, until every client that waits has its share, or a slot is free.
        Between two of them the caller may hold requests. The slots are sorted once, so that thousands are taken back
        in milliseconds.
        """
        share = self.slots // max(1, len(self.held.keys() | self.turns.clients.keys()))
        poor = deque(client for client in self.turns.clients if self.held[client] < share)
        if self.free or not poor:
            return
        richest = [(-count, order, client) for order, (client, count) in enumerate(self.held.items())]
        heapq.heapify(richest)
        least_painted = self._by_painted(painted)
        while poor and not self.free:
            client = poor.popleft()
            if client not in self.turns.clients or self.held[client] >= share:
                continue
            count, order, rich = richest[0]
            heapq.heapreplace(richest, (count + 1, order, rich))
            victim = self.assigned[least_painted[rich].pop()]
            self._requeue(victim)
            yield victim, self._assign(self.turns.next_of(client))
            poor.append(client)

    def _by_painted(self, painted: np.ndarray) -> dict[str, list[int]]:
        """The slots of every client, the one of which least is painted last; of equal ones the one assigned first."""
        slots = np.fromiter(reversed(self.assigned), np.int64, len(self.assigned))
        by_client: dict[str, list[int]] = {client: [] for client in self.held}
        for slot in slots[np.argsort(-painted[slots], kind="stable")].tolist():
            by_client[self.assigned[slot].client].append(slot)
        return by_client

    def _requeue(self, victim: SlotAssignment) -> None:
        """Free an image's slot and queue the image again."""
        self.release(victim.slot)
        if victim.request not in self.waiting:
            self.waiting[victim.request] = deque()
            self.turns.join(victim.request, victim.client)
        self.waiting[victim.request].append(victim.index)

    def _assign(self, request: int) -> SlotAssignment:
        """Give the lowest free slot to the next image of a request that has turns."""
        images, client = self.waiting[request], self.turns.client_of[request]
        assignment = SlotAssignment(heapq.heappop(self.free), request, images.popleft(), client)
        self.assigned[assignment.slot] = assignment
        self.is_busy[assignment.slot] = True
        self.slots_of.setdefault(request, set()).add(assignment.slot)
        self.held[client] += 1
        self.turns.end_turn(request)
        if not images:
            self.turns.leave(request)
            del self.waiting[request]
        return assignment

    def next_index(self, request: int) -> int | None:
        """Return the image of a request that gets a slot next; None where all have one."""
        images = self.waiting.get(request)
        return images[0] if images else None

    def hold(self, request: int) -> None:
        """Give a request with waiting images no turns until `resume`."""
        self.on_hold[request] = self.turns.client_of[request]
        self.turns.leave(request)

    def resume(self, request: int) -> None:
        """Give a request on hold its turns again."""
        self.turns.join(request, self.on_hold.pop(request))

    def release(self, slot: int) -> None:
        """Free the slot of an image that is complete."""
        one = self.assigned.pop(slot)
        client = one.client
        self.is_busy[slot] = False
        self.slots_of[one.request].discard(slot)
        if not self.slots_of[one.request]:
            del self.slots_of[one.request]
        self.held[client] -= 1
        if not self.held[client]:
            del self.held[client]
        heapq.heappush(self.free, slot)

    def cancel(self, request: int) -> list[int]:
        """Drop a request, waiting, on hold or in slots; return the slots that it held, now free."""
        self.waiting.pop(request, None)
        self.on_hold.pop(request, None)
        self.turns.leave(request)
        slots = sorted(self.slots_of.get(request, ()))
        for slot in slots:
            self.release(slot)
        return slots

    @property
    def images_waiting(self) -> int:
        """Images without a slot."""
        return sum(map(len, self.waiting.values()))
