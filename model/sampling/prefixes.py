"""Prefixes: the states after the known first bytes of waiting images, of one image a request, a fixed number in all.

A request is on hold in the scheduler until the prefix of its next image is there. The images of a request that complete
the same picture share a prefix, which is kept between them while there is room for all. Where requests wait for room, a
prefix is dropped after one image for another client's, after a few for the same client's, and read again later. So
memory is bounded whatever arrives, no client waits for another's long requests, and little is read twice.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scanline.model.sampling.turns import Turns

if TYPE_CHECKING:
    from scanline.model.sampling.generator import Prefix

PER_SLOT = 0.25  # prefixes for each slot; their memory counts where slots are chosen by memory
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


class Prefixes:
    """Invariant: a request is in `wanted`, in `held`, or needs no prefix now; `held` has room for at most `room`
    prefixes, and one more where the last one is guided."""

    def __init__(self, slots: int) -> None:
        self.room = max(1, int(PER_SLOT * slots))
        self.wanted = Turns()  # requests whose next image needs a prefix for which there is no room yet
        self.held: dict[int, HeldPrefix] = {}  # by request
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
        """Take room for the prefixes of a request's image `source`, which are read now."""
        assert not self._is_full
        self.held[request] = HeldPrefix(source, client, labels)
        self.used += len(labels)

    def put(self, request: int, label: int, prefix: "Prefix") -> bool:
        """Hold a prefix that room was reserved for; return whether it was the last one of its image."""
        held = self.held[request]
        held.prefixes[label] = prefix
        return len(held.prefixes) == len(held.labels)

    def start_from(self, request: int, source: int) -> list["Prefix"]:
        """Return the prefixes of a request's image `source`, which are held, for one of its images."""
        held = self.held[request]
        assert held.source == source
        held.images += 1
        return [held.prefixes[label] for label in held.labels]

    def keep(self, request: int, source: int) -> bool:
        """Return whether the request's next image starts from the prefix that it holds; drop that otherwise."""
        held = self.held.get(request)
        if held and held.source == source and not self._is_due(held):
            return True
        self.drop(request)
        return False

    @property
    def _is_full(self) -> bool:
        return self.used >= self.room

    def _is_due(self, held: HeldPrefix) -> bool:
        """Return whether a prefix has to make room for others now."""
        if not self._is_full or not self.wanted:
            return False
        another_waits = len(self.wanted.clients) > 1 or held.client not in self.wanted.clients
        return another_waits or held.images >= MOST_IMAGES

    def drop(self, request: int) -> None:
        """Forget a request and free its room, if it is there."""
        self.wanted.leave(request)
        if held := self.held.pop(request, None):
            self.used -= len(held.labels)
