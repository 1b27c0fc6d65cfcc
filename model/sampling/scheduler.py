"""Who gets a slot next: round robin over requests, whatever their size. Pure Python; owns queues and slots.

An image holds one slot from its first byte to its last. A request for one image that arrives behind one
for thousands starts at the next free slot. The lowest free slot goes first, so that busy slots lie together.
"""

import heapq
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class SlotAssignment:
    """An image of a request in a slot."""

    slot: int
    request: int
    index: int


class Scheduler:
    """Invariant: every slot is either free or seats one image; a request waits iff it has unseated images."""

    def __init__(self, slots: int) -> None:
        self.free = list(range(slots))
        self.seats: dict[int, SlotAssignment] = {}  # by slot
        self.turns: deque[int] = deque()  # requests with unseated images, whose turn is next at the left
        self.unseated: dict[int, range] = {}  # image indices that wait, by request

    def add(self, request: int, images: int) -> None:
        """Queues images 0..images-1 of a request."""
        assert images > 0
        assert request not in self.unseated
        self.unseated[request] = range(images)
        self.turns.append(request)

    def admit(self) -> SlotAssignment | None:
        """Seats the next image; None where no slot is free or nobody waits."""
        if not self.free or not self.turns:
            return None
        request = self.turns.popleft()
        waiting = self.unseated.pop(request)
        seat = SlotAssignment(heapq.heappop(self.free), request, waiting[0])
        self.seats[seat.slot] = seat
        if len(waiting) > 1:
            self.unseated[request] = waiting[1:]
            self.turns.append(request)
        return seat

    def release(self, slot: int) -> None:
        """Frees the slot of an image that is done."""
        del self.seats[slot]
        heapq.heappush(self.free, slot)

    def cancel(self, request: int) -> list[int]:
        """Forgets a request, waiting or seated; returns the slots that it held, now free."""
        if self.unseated.pop(request, None) is not None:
            self.turns.remove(request)
        slots = [seat.slot for seat in self.seats.values() if seat.request == request]
        for slot in slots:
            self.release(slot)
        return slots

    @property
    def waiting(self) -> int:
        """Images without a slot."""
        return sum(len(images) for images in self.unseated.values())
