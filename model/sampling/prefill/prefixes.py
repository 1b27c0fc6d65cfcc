"""Prefixes: the states after the known first bytes of waiting images, a fixed number in all.

A request is on hold in the scheduler until the prefix of its next image is there. Those of the
images behind it are run ahead, as many as the backend runs at once, while half of the room is free.
The images of a request that complete the same picture share a prefix, which is kept between them
while there is room for all. Where requests wait for room, a prefix is dropped after one image for
another client's, after a few for the same client's, and run again later. So memory is bounded
whatever arrives, no client waits for another's long requests, and little is run twice. What is run
for room that was given back since is dropped.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scanline.model.sampling.base.round_robin import RoundRobin

if TYPE_CHECKING:
    from scanline.model.sampling.base.prefill_state import Prefix

PER_SLOT = 0.25  # prefixes for each slot; their memory counts where slots are chosen by memory
AHEAD = 0.5  # of the room may be taken by prefixes that are run ahead
MAX_IMAGES = 8  # that start from a prefix while requests of the same client wait for room


@dataclass
class HeldPrefix:
    """Room for the prefixes of a request's known image `source`: one, or for guided images one
    with their label and one without."""

    source: int
    client: str
    labels: tuple[int, ...]
    # by label, as soon as each is there
    prefixes: dict[int, "Prefix"] = field(default_factory=dict)
    images: int = 0  # that have started from it

    @property
    def is_ready(self) -> bool:
        return len(self.prefixes) == len(self.labels)


class Prefixes:
    """Invariant: a request is in `wanted`, holds the prefix of its next image, or needs none now;
    all together hold at most `room` prefixes, and one more where the last one is guided."""

    def __init__(self, slots: int) -> None:
        self.room = max(1, int(PER_SLOT * slots))
        # requests whose next image needs a prefix for which there is no room yet
        self.wanted = RoundRobin()
        # by request and source: of its next images
        self.held: dict[int, dict[int, HeldPrefix]] = {}
        self.used = 0  # of the room, in prefixes

    def want(self, request: int, client: str) -> None:
        """Queue a request for room, unless it is queued already."""
        if request not in self.wanted:
            self.wanted.join(request, client)

    def next_wanted(self) -> int | None:
        """Take the next request for which there is room now; None where
        there is none. `reserve` its room.
        """
        if self._is_full:
            return None
        request = self.wanted.next()
        if request is None:
            return None
        self.wanted.end_turn(request)
        self.wanted.leave(request)
        return request

    def reserve(self, request: int, client: str, source: int, labels: tuple[int, ...]) -> None:
        """Take room for the prefixes of a request's image `source`, its next one
        or a later one, which are run now.
        """
        assert not self._is_full
        self.held.setdefault(request, {})[source] = HeldPrefix(source, client, labels)
        self.used += len(labels)

    def may_prefill_ahead(self, request: int, most: int) -> bool:
        """Return whether there is room for one more later prefix of a request,
        of which `most` may be run ahead.
        """
        return self.used < AHEAD * self.room and len(self.held[request]) <= most

    def has_room_for(self, request: int, source: int) -> bool:
        """Return whether the prefixes of a request's image `source` are there or are being run."""
        return source in self.held.get(request, {})

    def is_ready(self, request: int, source: int) -> bool:
        """Return whether the prefixes of a request's image `source` are there."""
        held = self.held.get(request, {}).get(source)
        return held is not None and held.is_ready

    def put(self, request: int, source: int, label: int, prefix: "Prefix") -> None:
        """Keep a prefix, if there is still room for it."""
        held = self.held.get(request, {}).get(source)
        if held is not None:
            held.prefixes[label] = prefix

    def start_from(self, request: int, source: int) -> list["Prefix"]:
        """Return the prefixes of a request's image `source`, which
        are held, for one of its images.
        """
        held = self.held[request][source]
        held.images += 1
        return [held.prefixes[label] for label in held.labels]

    def move_on(self, request: int, source: int | None) -> None:
        """Free the room of what the request's images have started from, if the next one, of
        `source`, needs another prefix or this one has to make room for others."""
        for held in [*self.held.get(request, {}).values()]:
            if held.images and (held.source != source or self._is_due(held)):
                self._free(request, held)

    @property
    def _is_full(self) -> bool:
        return self.used >= self.room

    def _is_due(self, held: HeldPrefix) -> bool:
        """Return whether a prefix has to make room for others now."""
        if not self._is_full or not self.wanted:
            return False
        clients = self.wanted.clients
        another_waits = len(clients) > 1 or held.client not in clients
        return another_waits or held.images >= MAX_IMAGES

    def drop(self, request: int) -> None:
        """Forget a request and free its room, if it is there."""
        self.wanted.leave(request)
        for held in [*self.held.get(request, {}).values()]:
            self._free(request, held)

    def _free(self, request: int, held: HeldPrefix) -> None:
        self.used -= len(held.labels)
        del self.held[request][held.source]
        if not self.held[request]:
            del self.held[request]
