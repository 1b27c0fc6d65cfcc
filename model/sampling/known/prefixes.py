"""Prefixes: the states after the known first bytes of waiting images, a fixed number in all.

A request is on hold in the scheduler until the prefix of its next image is there. Those of its later known images are
read ahead, as many as the backend reads at once, while half of the room is free. The images of a request that complete
the same picture share a prefix, which is kept between them while there is room for all. Where requests wait for room, a
prefix is dropped after one image for another client's, after a few for the same client's, and read again later. So
memory is bounded whatever arrives, no client waits for another's long requests, and little is read twice.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scanline.model.sampling.turns import Turns

if TYPE_CHECKING:
    from scanline.model.sampling.known.reading import Prefix

PER_SLOT = 0.25  # prefixes for each slot; their memory counts where slots are chosen by memory
AHEAD = 0.5  # of the room may be taken by prefixes that are read ahead
MOST_IMAGES = 8  # that start from a prefix while requests of the same client wait for room


@dataclass
class HeldPrefix:
    """Room for the prefixes of a request's known image `source`: one, or for guided images one with their label and
    one without."""

    source: int
    client: str
    labels: tuple[int, ...]
    prefixes: dict[int, "Prefix"] = field(default_factory=dict)  # by label, as soon as each is read
    images: int = 0  # that have started from it

    @property
    def is_read(self) -> bool:
        return len(self.prefixes) == len(self.labels)


class Prefixes:
    """Invariant: a request is in `wanted`, in `held`, or needs no prefix now; `held` and `ahead` have room for at most
    `room` prefixes, and one more where the last one is guided."""

    def __init__(self, slots: int) -> None:
        self.room = max(1, int(PER_SLOT * slots))
        self.wanted = Turns()  # requests whose next image needs a prefix for which there is no room yet
        self.held: dict[int, HeldPrefix] = {}  # by request: of its next image
        self.ahead: dict[int, dict[int, HeldPrefix]] = {}  # by request and source: of later ones
        self.furthest: dict[int, int] = {}  # by request: the last source that there was room for
        self.used = 0  # of the room, in prefixes

    def want(self, request: int, client: str) -> None:
        """Queue a request for room."""
        self.wanted.join(request, client)

    def next_wanted(self) -> int | None:
        """Take the next request for which there is room now; None where there is none. `reserve` its room."""
        if self._is_full or (request := self.wanted.next()) is None:
            return None
        self.wanted.end_turn(request)
        self.wanted.leave(request)
        return request

    def reserve(self, request: int, client: str, source: int, labels: tuple[int, ...]) -> None:
        """Take room for the prefixes of a request's image `source`, its next one or a later one, which are read now."""
        assert not self._is_full
        reserved = HeldPrefix(source, client, labels)
        if request in self.held:
            self.ahead.setdefault(request, {})[source] = reserved
        else:
            self.held[request] = reserved
        self.furthest[request] = max(source, self.furthest.get(request, 0))
        self.used += len(labels)

    def next_ahead(self, request: int, most: int) -> int | None:
        """Return the first source of a request in `held` that may be read ahead now, None where `most` have been."""
        is_room = self.used < AHEAD * self.room and len(self.ahead.get(request, ())) < most
        return self.furthest[request] + 1 if is_room else None

    def put(self, request: int, source: int, label: int, prefix: "Prefix") -> bool:
        """Hold a prefix that room was reserved for; return whether it was the last one of the request's next image."""
        held = self.held[request]
        if held.source != source:
            self.ahead[request][source].prefixes[label] = prefix
            return False
        held.prefixes[label] = prefix
        return held.is_read

    def start_from(self, request: int, source: int) -> list["Prefix"]:
        """Return the prefixes of a request's image `source`, which are held, for one of its images."""
        held = self.held[request]
        assert held.source == source
        held.images += 1
        return [held.prefixes[label] for label in held.labels]

    def keep(self, request: int, source: int) -> bool:
        """Return whether the prefixes of the request's next image, of `source`, are there; where they are being read
        ahead, or have been, they are in `held` now. Those of its last image are dropped if they are others."""
        held = self.held.get(request)
        if held and held.source == source and not self._is_due(held):
            return True
        self.forget(request)
        if (later := self.ahead.get(request, {}).pop(source, None)) is None:
            return False
        self.held[request] = later
        return later.is_read

    @property
    def _is_full(self) -> bool:
        return self.used >= self.room

    def _is_due(self, held: HeldPrefix) -> bool:
        """Return whether a prefix has to make room for others now."""
        if not self._is_full or not self.wanted:
            return False
        another_waits = len(self.wanted.clients) > 1 or held.client not in self.wanted.clients
        return another_waits or held.images >= MOST_IMAGES

    def forget(self, request: int) -> None:
        """Free the room of the prefixes that a request holds for its next image, if it does."""
        if held := self.held.pop(request, None):
            self.used -= len(held.labels)

    def drop(self, request: int) -> None:
        """Forget a request and free its room, if it is there."""
        self.wanted.leave(request)
        self.forget(request)
        self.used -= sum(len(later.labels) for later in self.ahead.pop(request, {}).values())
        self.furthest.pop(request, None)
