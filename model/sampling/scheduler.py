"""The scheduler: which image gets slots next. Owns queues and slots, no tensor.

An image holds its slots, as many as its kind says, from its first byte to its last: all of them or
none. Slots are shared round robin between clients, then between
a client's requests: while one client has a thousand requests queued, another with a single one gets
every second slot that becomes free, and a request for one image does not wait for one of thousands.
The lowest free slots are used first, so that busy slots lie together.

An image that needs more slots than are free waits for them, and those behind it wait with
it: else images of one slot would take each slot that becomes free, for ever. A client that
holds slots already, and would hold more than an equal share with this image, lets the
others go first until it may have it.

While an image waits for more slots than an equal share, or holds them, images within their
clients' shares may have spare slots, which are there for nothing else: so they wait neither until
it has its slots nor until it is complete.

Where an image does not fit, clients that wait and have at most their share with it take
slots from the client that holds most: its images with the fewest painted bytes go back into
the queue, and start anew later, from their seed. No client loses its last image so, whatever
its slots: it would never be complete.

A request on hold keeps its images and has no turns; it takes them up again behind the others.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

import numpy as np

from scanline.model.sampling.assignment import SlotAssignment
from scanline.model.sampling.base.round_robin import RoundRobin
from scanline.model.sampling.kinds.kind import Kind
from scanline.model.sampling.kinds.plain import PLAIN


class Scheduler:
    """Invariant: every slot is either free or assigned to one image; a request has turns iff it has
    waiting images and is not on hold."""

    def __init__(
        self,
        slots: int,
        # of an image, by its request and index; it needs at most all slots
        kind_of: Callable[[int, int], Kind] = lambda *_: PLAIN,
        spare: int = 0,  # slots behind them
    ) -> None:
        self.free = list(range(slots))
        self.spare = list(range(slots, slots + spare))  # those that are free
        self.assigned: dict[int, SlotAssignment] = {}  # by the image's first slot
        self.groups: dict[int, SlotAssignment] = {}  # those of several slots
        self.is_busy = np.zeros(slots + spare, np.bool_)  # which slots are assigned
        self.is_first = np.zeros(slots + spare, np.bool_)  # which of them are the first of an image
        # of the image in each busy slot, after the steps that were started
        self.positions = np.zeros(slots + spare, np.int64)
        self.turn = 0
        # the turn in which each slot has stepped last
        self.stepped = np.zeros(slots + spare, np.int64)
        # the turn after which each slot was assigned
        self.assigned_after = np.zeros(slots + spare, np.int64)
        self.slots_of: dict[int, set[int]] = {}  # first slots of its images, by request
        self.held: Counter[str] = Counter()  # slots of each client that holds any
        self.slots = slots
        self.kind_of = kind_of
        self.turns = RoundRobin()
        self.waiting: dict[int, deque[int]] = {}  # image indices without a slot, by request
        self.on_hold: dict[int, str] = {}  # client, by request

    @property
    def images_waiting(self) -> int:
        """Images without a slot."""
        return sum(map(len, self.waiting.values()))

    def add(self, request: int, indices: Sequence[int], client: str = "") -> None:
        """Queue the images `indices` of a client's request."""
        assert indices
        assert request not in self.waiting
        self.waiting[request] = deque(indices)
        self.turns.join(request, client)

    def append(self, request: int, index: int, client: str) -> None:
        """Queue one more image of a client's request, behind its others."""
        if request not in self.waiting:
            self.waiting[request] = deque()
            self.turns.join(request, client)
        self.waiting[request].append(index)

    def next_index(self, request: int) -> int | None:
        """Return the image of a request that gets a slot next; None where all have one."""
        images = self.waiting.get(request)
        if images:
            return images[0]
        return None

    def next_indices(self, request: int, most: int) -> list[int]:
        """Return the images of a request that get slots next, up to `most` of them."""
        return [*islice(self.waiting.get(request, ()), most)]

    def hold(self, request: int) -> None:
        """Give a request with waiting images no turns until `resume`; one on hold stays so."""
        if request not in self.on_hold:
            self.on_hold[request] = self.turns.client_of[request]
            self.turns.leave(request)

    def resume(self, request: int) -> None:
        """Give a request its turns again, if it is on hold."""
        client = self.on_hold.pop(request, None)
        if client is not None:
            self.turns.join(request, client)

    def admit(self) -> SlotAssignment | None:
        """Assign slots to the next image; None where too few are free or no image has a turn."""
        # The first in turn, if its image fits. If not, requests behind it are asked only where it
        # has no right to wait: images of one slot would otherwise take each slot that becomes free,
        # and one of many slots would never start.
        for request in self.turns.in_order() if self.free else ():
            kind = self._next_kind(request)
            needed = kind.slots
            if needed <= len(self.free):
                return self._assign(request, kind, self.free)
            # The free slots are kept for this image, unless its client would hold more
            # than its share with it. A client without a slot may always wait: its
            # first image may be larger than a share.
            client = self.turns.client_of[request]
            if not self.held[client] or self.held[client] + needed <= self._share:
                break
        return self._admit_to_spare() if self.spare else None

    def reclaim(self) -> Iterator[tuple[SlotAssignment, SlotAssignment]]:
        """Give slots of the clients that hold most to those that wait with
        less than their share of all slots.

        Yield each image that lost its slots, which waits behind the others of its request, with
        the image for which it lost them, until every client that waits has its share, or the next
        image fits into the free slots: what was taken may be more than was needed. Between two
        images the caller may hold requests.
        """
        # Only clients below their share may take, and only from those above theirs: between others,
        # slots would go back and forth, and each time an image would start anew.
        share = self._share
        below = deque(client for client in self.turns.clients if self.held[client] < share)
        if not below or self._next_fits():
            return
        # Images are sorted once and clients kept in a heap: thousands of
        # slots are taken back in milliseconds.
        victims_of = self._by_painted()
        above: list[tuple[int, int, str]] = []
        left = 0  # slots that may be taken in all
        for order, (client, count) in enumerate(self.held.items()):
            if count > share and len(victims_of[client]) > 1:
                above.append((-count, order, client))
                left += self._excess(share, victims_of[client])
        heapq.heapify(above)
        while below and not self._next_fits():
            # The next client below its share, round robin; its last request may be on hold since.
            client = below.popleft()
            if client not in self.turns.clients:
                continue
            request = self.turns.next_of(client)
            kind = self._next_kind(request)
            needed = kind.slots
            # Slots that are free already wait for the image whose turn it is;
            # another one has to take all of its own.
            kept = 0 if request == self.turns.next() else len(self.free)
            # All or nothing: slots that are too few for the image would be taken for nothing.
            if self.held[client] + needed > share or needed + kept - len(self.free) > left:
                continue
            victims = []
            while len(self.free) - kept < needed:
                _, order, holder = above[0]
                victim = self.assigned[victims_of[holder].pop()]
                victims.append(victim)
                self._requeue(victim)
                left -= len(victim.slots)
                # A client leaves the heap at its share, and at its last image.
                count = self.held[holder]
                if count > share and len(victims_of[holder]) > 1:
                    heapq.heapreplace(above, (-count, order, holder))
                else:
                    heapq.heappop(above)
            assignment = self._assign(request, kind, self.free)
            yield from ((victim, assignment) for victim in victims)
            below.append(client)

    def release(self, slot: int) -> None:
        """Free the slots of the image whose first one is `slot`."""
        assignment = self.assigned.pop(slot)
        self.groups.pop(slot, None)
        self.is_first[slot] = False
        for freed in assignment.slots:
            self.is_busy[freed] = False
            heapq.heappush(self.free if freed < self.slots else self.spare, freed)
        of_request = self.slots_of[assignment.request]
        of_request.discard(slot)
        if not of_request:
            del self.slots_of[assignment.request]
        self.held[assignment.client] -= len(assignment.slots)
        if not self.held[assignment.client]:
            del self.held[assignment.client]

    def cancel(self, request: int) -> list[int]:
        """Drop a request, waiting, on hold or in slots; return the slots that it held, now free."""
        self.waiting.pop(request, None)
        self.on_hold.pop(request, None)
        self.turns.leave(request)
        freed: list[int] = []
        for slot in sorted(self.slots_of.get(request, ())):
            freed += self.assigned[slot].slots
            self.release(slot)
        return sorted(freed)

    def in_turn(self, clients: Collection[str], most: int) -> list[SlotAssignment]:
        """Return the images of some clients; where these have more than `most`
        slots, as many of each client as have its part of `most` slots, at least:
        those that have waited longest for a step."""
        # Where all cannot step in one tick, clients have equal parts of the tick,
        # whatever they hold; of a client's images those that stepped least recently are
        # first, so that every image moves on.
        images = [image for image in self.assigned.values() if image.client in clients]
        if sum(len(image.slots) for image in images) <= most:
            return images
        part = max(1, most // len(clients))
        taken = Counter[str]()  # slots, by client
        chosen = []
        for image in sorted(images, key=lambda image: int(self.stepped[image.slot])):
            if taken[image.client] < part:
                taken[image.client] += len(image.slots)
                chosen.append(image)
        return chosen

    def _admit_to_spare(self) -> SlotAssignment | None:
        """Assign spare slots to the next image within its client's share, where
        one of more slots is in the way.
        """
        # Spare slots stay empty as long as nothing blocks the others: they are not more room, but
        # a way past an image that holds or waits for more than a share. So only images within
        # their clients' shares may have them.
        share = self._share
        first = self.turns.next()
        waits_for_more = first is not None and self._next_kind(first).slots > share
        holds_more = any(len(image.slots) > share for image in self.groups.values())
        if not waits_for_more and not holds_more:
            return None
        for request in self.turns.in_order():
            kind = self._next_kind(request)
            held = self.held[self.turns.client_of[request]]
            if kind.slots <= len(self.spare) and held + kind.slots <= share:
                return self._assign(request, kind, self.spare)
        return None

    @property
    def _share(self) -> int:
        """Slots of each client, if all that hold any or wait had the same number."""
        return self.slots // max(1, len(self.held.keys() | self.turns.clients.keys()))

    def _next_kind(self, request: int) -> Kind:
        """Return the kind of the next image of a request."""
        return self.kind_of(request, self.waiting[request][0])

    def _next_fits(self) -> bool:
        """Return whether no image waits for slots that are not free."""
        request = self.turns.next()
        if request is None:
            return True
        return bool(self.free) and self._next_kind(request).slots <= len(self.free)

    def _excess(self, share: int, victims: Sequence[int]) -> int:
        """Return how many slots can be taken from a client with these images
        until it has its share or one image.
        """
        sizes = [len(self.assigned[slot].slots) for slot in reversed(victims)]
        held = sum(sizes)
        taken = 0
        for size in sizes[:-1]:
            if held - taken <= share:
                break
            taken += size
        return taken

    def _by_painted(self) -> dict[str, list[int]]:
        """Return every client's images by their first slots, the one with the fewest painted
        bytes last; of equal ones the one assigned first. Without those in spare slots, which
        are within their clients' shares."""
        slots = np.fromiter(reversed(self.assigned), np.int64, len(self.assigned))
        slots = slots[slots < self.slots]
        by_client: dict[str, list[int]] = {client: [] for client in self.held}
        for slot in slots[np.argsort(-self.positions[slots], kind="stable")].tolist():
            by_client[self.assigned[slot].client].append(slot)
        return by_client

    def _requeue(self, victim: SlotAssignment) -> None:
        self.release(victim.slot)
        self.append(victim.request, victim.index, victim.client)

    def _assign(self, request: int, kind: Kind, free: list[int]) -> SlotAssignment:
        """Give the lowest of `free` slots, as many as it needs, to the next
        image of a request that has turns, which is of this kind.
        """
        images = self.waiting[request]
        client = self.turns.client_of[request]
        slots = tuple(heapq.heappop(free) for _ in range(kind.slots))
        slot = slots[0]
        assignment = SlotAssignment(slots, request, images.popleft(), client, kind)
        self.assigned[slot] = assignment
        self.is_first[slot] = True
        for taken in slots:
            self.is_busy[taken] = True
            self.assigned_after[taken] = self.turn
        if kind.slots > 1:
            self.groups[slot] = assignment
        self.slots_of.setdefault(request, set()).add(slot)
        self.held[client] += kind.slots
        self.turns.end_turn(request, kind.slots)
        if not images:
            self.turns.leave(request)
            del self.waiting[request]
        return assignment
