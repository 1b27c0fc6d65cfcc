"""A launch: the steps that a generator is given in one tick, and what is
to be sent once these have ended.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import Fetched
from scanline.model.sampling.active_request import ActiveRequest
from scanline.model.sampling.assignment import SlotAssignment
from scanline.model.sampling.base.generator import Started
from scanline.model.sampling.base.messages import Finished, Pixels, StateSnapshot
from scanline.model.sampling.kinds import evidence


@dataclass(frozen=True, slots=True)
class Frame:
    """Painted bytes of a streamed image, up to `stop` - 1.

    Of them, those are sent as final that come after what was sent before and can no longer change,
    which is known once the steps have ended.
    """

    assignment: SlotAssignment
    stop: int
    slots: tuple[int, ...]  # to fetch
    # also sent, as such: the bytes of the first candidate after the final ones
    provisional: bool = False

    def painted(self, images: np.ndarray) -> tuple[int, int]:
        """Return the first byte and the one after the last of those that are final now, given the
        images [n, N] of the slots; update in the assignment, IN PLACE, what has been sent."""
        first = self.assignment.sent
        self.assignment.sent = self.assignment.kind.final(images, self.stop)
        return first, self.assignment.sent


@dataclass(frozen=True)
class PendingSnapshot:
    """The state (s [C, M], z [C]) of an image before `position`."""

    request: int
    position: Pending[int]
    state: Pending[tuple[np.ndarray, np.ndarray]]


NOTHING = Pending.ended(Fetched.nothing())


@dataclass
class Launch:
    """So many passes of some images. Only its methods wait for the device."""

    started: Started
    passes: int  # at most
    turn: int  # of the scheduler
    slots: np.ndarray  # [n] int64
    is_first: np.ndarray  # [n]: of which an image's bytes are counted
    slots_of: Mapping[str, int]  # how many of them each client has
    # Known once the images have moved:
    rows: dict[str, int] = field(default_factory=dict)  # in proportion to which clients pay
    painted_bytes: int = 0
    # when those requests were accepted whose first bytes are among them
    accepted: list[float] = field(default_factory=list)
    finished: list[SlotAssignment] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    snapshots: list[PendingSnapshot] = field(default_factory=list)
    fetched: Pending[Fetched] = NOTHING

    @property
    def fetched_slots(self) -> list[int]:
        """The slots to fetch: those of the frames, then those of the finished images."""
        return [
            *(slot for frame in self.frames for slot in frame.slots),
            *(slot for image in self.finished for slot in image.ends),
        ]

    @property
    def ended(self) -> list[tuple[int, SlotAssignment]]:
        """The row of each slot of a finished image in what is fetched, with the image."""
        images = [image for image in self.finished for _ in image.ends]
        return [*enumerate(images, len(self.fetched_slots) - len(images))]

    def overflowed(self, requests: Container[int], *, may_be_infinite: bool) -> set[int]:
        """Return those of `requests` of which a fetched image has bits that are NaN or infinite;
        these may be infinite without a start token, by the first byte. Of several candidates
        only the one that is chosen counts."""
        if not self.fetched_slots:
            return set()
        owners: list[int | None] = []  # the request of each fetched slot that counts
        for frame in self.frames:
            if len(frame.slots) == 1:
                owners.append(frame.assignment.request)
            else:
                owners += [None] * len(frame.slots)
        owners += [image.request for _, image in self.ended]
        bits = self.fetched.wait().bits
        is_wrong = np.isnan(bits) if may_be_infinite else ~np.isfinite(bits)
        wrong: set[int] = set()
        for row in np.flatnonzero(is_wrong):
            owner = owners[row]
            if owner is not None and owner in requests:
                wrong.add(owner)
        return wrong

    def pixels(self, requests: Container[int]) -> list[Pixels]:
        """Return the frames, those of each of `requests` together."""
        painted: dict[int, list[tuple[int, int, bytes]]] = {}
        provisional: dict[int, list[tuple[int, int, bytes]]] = {}
        images = self.fetched.wait().images
        row = 0
        for frame in self.frames:
            request, index = frame.assignment.image
            candidates = images[row : row + len(frame.slots)]
            row += len(candidates)
            first, stop = frame.painted(candidates)
            if request in requests and first < stop:
                painted.setdefault(request, []).append(
                    (index, first, candidates[0, first:stop].tobytes())
                )
            if request in requests and frame.provisional and stop < frame.stop:
                provisional.setdefault(request, []).append(
                    (index, stop, candidates[0, stop : frame.stop].tobytes())
                )
        streamed = painted | provisional
        return [
            Pixels(number, painted.get(number, []), provisional.get(number, ()))
            for number in streamed
        ]

    def state_snapshots(self, requests: Container[int]) -> Iterator[StateSnapshot]:
        """Yield the snapshots of `requests`."""
        for snapshot in self.snapshots:
            if snapshot.request in requests:
                s, z = snapshot.state.wait()
                position = snapshot.position.wait()
                yield StateSnapshot(snapshot.request, position, s.tobytes(), z.tobytes())

    def reads(self) -> Iterator[tuple[SlotAssignment, np.ndarray]]:
        """Yield the finished images that another may follow, with what each has
        read of its code (Fetched.decoders).
        """
        for row, assignment in self.ended:
            if assignment.kind.is_followed:
                yield assignment, self.fetched.wait().decoders[row]

    def finished_images(self, requests: Mapping[int, ActiveRequest]) -> Iterator[Finished]:
        """Yield the finished images of `requests`; of one that the class head chooses, each
        candidate."""
        fetched = self.fetched.wait()
        bits_per_dim = (fetched.bits / max(1, fetched.images.shape[1])).tolist()
        for row, assignment in self.ended:
            active = requests.get(assignment.request)
            if active is None or not assignment.is_wanted:
                continue
            image = fetched.images[row].tobytes()
            numbers: dict[str, Any] = {}
            if active.request.known:
                numbers = dict(zip(evidence.NAMES, fetched.evidence(row), strict=True))
            yield Finished(*assignment.image, image, bits_per_dim[row], assignment.label, **numbers)
