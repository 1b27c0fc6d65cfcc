"""What a generator is given in one tick, images to start and steps, and what is to be sent once these have ended."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from math import isfinite, isnan

import numpy as np

from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import Fetched
from scanline.model.sampling.generator import Prefix
from scanline.model.sampling.messages import Finished, ImageSpec, Pixels, StateSnapshot
from scanline.model.sampling.scheduler import SlotAssignment


@dataclass(frozen=True, slots=True)
class Placement:
    """An image that is to start in its slot."""

    assignment: SlotAssignment
    spec: ImageSpec
    prefix: Prefix | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Painted bytes of a streamed image, from `first` to `stop` - 1."""

    assignment: SlotAssignment
    first: int
    stop: int


@dataclass(frozen=True)
class Snapshot:
    """The state (s [C, M], z [C]) of an image before `position`."""

    request: int
    position: int
    state: Pending[tuple[np.ndarray, np.ndarray]]


@dataclass
class Launch:
    """So many steps of some images. Nothing in it is waited for but by its methods."""

    seconds: Pending[float]
    steps: int
    images: dict[str, int]  # that were stepped, by client
    painted_bytes: int
    accepted: list[float]  # when those requests were accepted whose first bytes are among them
    finished: list[SlotAssignment] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    fetched: Pending[Fetched] = field(default_factory=lambda: Pending.ended(Fetched.nothing()))

    @property
    def slots(self) -> list[int]:
        """The slots to fetch: those of the pieces, then those of the finished images."""
        return [*(piece.assignment.slot for piece in self.pieces), *(one.slot for one in self.finished)]

    def overflowed(self, requests: Container[int], *, may_be_infinite: bool) -> set[int]:
        """Those of `requests` of which a fetched image has cost what is not a number, or infinitely much: that a first
        byte may without a start token."""
        assignments = [*(piece.assignment for piece in self.pieces), *self.finished]
        is_wrong = isnan if may_be_infinite else lambda bits: not isfinite(bits)
        costs = zip(assignments, self.fetched.wait().bits.tolist(), strict=False)
        return {one.request for one, bits in costs if one.request in requests and is_wrong(bits)}

    def pixels(self, requests: Container[int]) -> list[Pixels]:
        """The pieces, those of each of `requests` together."""
        painted: dict[int, list[tuple[int, int, bytes]]] = {}
        for piece, image in zip(self.pieces, self.fetched.wait().images, strict=False):
            one = piece.assignment
            if one.request in requests:
                data = image[piece.first : piece.stop].tobytes()
                painted.setdefault(one.request, []).append((one.index, piece.first, data))
        return [Pixels(request, frames) for request, frames in painted.items()]

    def state_snapshots(self, requests: Container[int]) -> Iterator[StateSnapshot]:
        """The snapshots of `requests`."""
        for one in self.snapshots:
            if one.request in requests:
                s, z = one.state.wait()
                yield StateSnapshot(one.request, one.position, s.tobytes(), z.tobytes())

    def finished_images(self, requests: Container[int]) -> Iterator[Finished]:
        """The finished images of `requests`."""
        fetched, length = self.fetched.wait(), self.fetched.wait().images.shape[1]
        bits_per_dim = (fetched.bits / max(1, length)).tolist()
        for row, one in enumerate(self.finished, len(self.pieces)):
            if one.request in requests:
                yield Finished(one.request, one.index, fetched.images[row].tobytes(), bits_per_dim[row])
