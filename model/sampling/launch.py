"""What a generator is given in one tick, images to start and steps, and what is to be sent once these have ended."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import Fetched
from scanline.model.sampling.admission import ActiveRequest
from scanline.model.sampling.messages import Finished, Pixels, StateSnapshot
from scanline.model.sampling.particles import agreed
from scanline.model.sampling.scheduler import SlotAssignment


@dataclass(frozen=True, slots=True)
class Piece:
    """Painted bytes of a streamed image, from `first` to `stop` - 1.

    Of an image of several particles, the bytes after those sent before in which all particles agree: which these are is
    known once the steps have ended.
    """

    assignment: SlotAssignment
    first: int
    stop: int
    slots: tuple[int, ...]  # to fetch
    provisional: bool = False  # also sent, as such: the bytes of the first particle after those in which all agree

    def painted(self, images: np.ndarray) -> tuple[int, int]:
        """Return the first byte and the one after the last, given the images [n, N] of the slots; notes in the
        assignment, IN PLACE, what has been sent of an image of several particles."""
        if len(self.assignment.particles) == 1:
            return self.first, self.stop
        first = self.assignment.sent
        self.assignment.sent = agreed(images, self.stop)
        return first, self.assignment.sent


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
        """The slots to fetch: those of the pieces, then the first ones of the finished images."""
        return [*(slot for piece in self.pieces for slot in piece.slots), *(one.slot for one in self.finished)]

    def overflowed(self, requests: Container[int], *, may_be_infinite: bool) -> set[int]:
        """Those of `requests` of which a fetched image has cost what is not a number, or infinitely much: that a first
        byte may without a start token. Of several particles only the one that is chosen counts."""
        owners: list[int | None] = []
        for piece in self.pieces:
            owners += [piece.assignment.request if len(piece.slots) == 1 else None] * len(piece.slots)
        owners += [one.request for one in self.finished]
        bits = self.fetched.wait().bits
        wrong = np.flatnonzero(np.isnan(bits) if may_be_infinite else ~np.isfinite(bits))
        return {owner for row in wrong if (owner := owners[row]) is not None and owner in requests}

    def pixels(self, requests: Container[int]) -> list[Pixels]:
        """The pieces, those of each of `requests` together."""
        painted: dict[int, list[tuple[int, int, bytes]]] = {}
        provisional: dict[int, list[tuple[int, int, bytes]]] = {}
        images, row = self.fetched.wait().images, 0
        for piece in self.pieces:
            one, its = piece.assignment, images[row : row + len(piece.slots)]
            first, stop = piece.painted(its)
            row += len(its)
            if one.request in requests and first < stop:
                painted.setdefault(one.request, []).append((one.index, first, its[0, first:stop].tobytes()))
            if one.request in requests and piece.provisional and stop < piece.stop:
                after = one.index, stop, its[0, stop : piece.stop].tobytes()
                provisional.setdefault(one.request, []).append(after)
        return [
            Pixels(request, painted.get(request, []), provisional.get(request, ())) for request in painted | provisional
        ]

    def state_snapshots(self, requests: Container[int]) -> Iterator[StateSnapshot]:
        """The snapshots of `requests`."""
        for one in self.snapshots:
            if one.request in requests:
                s, z = one.state.wait()
                yield StateSnapshot(one.request, one.position, s.tobytes(), z.tobytes())

    def finished_images(self, requests: Mapping[int, ActiveRequest]) -> Iterator[Finished]:
        """The finished images of `requests`."""
        fetched, length = self.fetched.wait(), self.fetched.wait().images.shape[1]
        bits_per_dim = (fetched.bits / max(1, length)).tolist()
        for row, one in enumerate(self.finished, len(bits_per_dim) - len(self.finished)):
            if (active := requests.get(one.request)) is None:
                continue
            weighed: tuple[float, ...] = ()
            if active.request.known:
                weighed = float(fetched.evidence_bits[row]), float(fetched.effective_particles[row])
            yield Finished(one.request, one.index, fetched.images[row].tobytes(), bits_per_dim[row], *weighed)
