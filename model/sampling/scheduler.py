"""Which image gets a slot next: round robin over clients, then over a client's requests. Owns slots, no tensor.

An image holds one slot from its first byte to its last. Slots are shared fairly between clients, not between requests:
beside one client with a thousand requests, another one with a single request gets every second slot that becomes free.
Among the requests of one client each gets a slot in turn, whatever their sizes, so that a request for one image is not
behind one for thousands. The lowest free slot is used first, so that busy slots lie together.

A request on hold keeps its images and has no turns; it takes them up again behind the others.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from scanline.model.sampling.turns import Turns


@dataclass
class SlotAssignment:
    """An image of a request in a slot."""

    slot: int
    request: int
    index: int  # of the image in its request
    sent: int = 0  # bytes of it already sent to its stream


class Scheduler:
    """Invariant: every slot is either free or assigned to one image; a request has turns iff it has waiting images and
    is not on hold."""

    def __init__(self, slots: int) -> None:
        self.free = list(range(slots))
        self.assigned: dict[int, SlotAssignment] = {}  # by slot
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
        images = self.waiting[request]
        assignment = SlotAssignment(heapq.heappop(self.free), request, images.popleft())
        self.assigned[assignment.slot] = assignment
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
        del self.assigned[slot]
        heapq.heappush(self.free, slot)

    def cancel(self, request: int) -> list[int]:
        """Drop a request, waiting, on hold or in slots; return the slots that it held, now free."""
        self.waiting.pop(request, None)
        self.on_hold.pop(request, None)
        self.turns.leave(request)
        slots = [one.slot for one in self.assigned.values() if one.request == request]
        for slot in slots:
            self.release(slot)
        return slots

    @property
    def images_waiting(self) -> int:
        """Images without a slot."""
        return sum(map(len, self.waiting.values()))
