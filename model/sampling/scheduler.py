"""Which image gets a slot next: round robin over requests, whatever their size. Owns queues and slots, no tensor.

An image holds one slot from its first byte to its last. A request for one image that arrives after one for thousands
starts at the next free slot. The lowest free slot is used first, so that busy slots lie together.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class SlotAssignment:
    """An image of a request in a slot."""

    slot: int
    request: int
    index: int  # of the image in its request
    sent: int = 0  # bytes of it already sent to its stream


class Scheduler:
    """Invariant: every slot is either free or assigned to one image; a request has a turn iff it has waiting images."""

    def __init__(self, slots: int) -> None:
        self.free = list(range(slots))
        self.assigned: dict[int, SlotAssignment] = {}  # by slot
        self.turns: deque[int] = deque()  # requests with waiting images; the next one at the left
        self.waiting: dict[int, deque[int]] = {}  # image indices without a slot, by request

    def add(self, request: int, indices: Sequence[int]) -> None:
        """Queue the images `indices` of a request."""
        assert indices
        assert request not in self.waiting
        self.waiting[request] = deque(indices)
        self.turns.append(request)

    def admit(self) -> SlotAssignment | None:
        """Assign a slot to the next image; None where no slot is free or no image waits."""
        if not self.free or not self.turns:
            return None
        request = self.turns.popleft()
        images = self.waiting[request]
        assignment = SlotAssignment(heapq.heappop(self.free), request, images.popleft())
        self.assigned[assignment.slot] = assignment
        if images:
            self.turns.append(request)
        else:
            del self.waiting[request]
        return assignment

    def release(self, slot: int) -> None:
        """Free the slot of an image that is complete."""
        del self.assigned[slot]
        heapq.heappush(self.free, slot)

    def cancel(self, request: int) -> list[int]:
        """Drop a request, waiting or in slots; return the slots that it held, now free."""
        if self.waiting.pop(request, None) is not None:
            self.turns.remove(request)
        slots = [one.slot for one in self.assigned.values() if one.request == request]
        for slot in slots:
            self.release(slot)
        return slots

    @property
    def images_waiting(self) -> int:
        """Images without a slot."""
        return sum(map(len, self.waiting.values()))
