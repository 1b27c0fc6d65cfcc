"""A request as the API sees it: what its engine has sent so far, and what of it has been passed on.

A job's buffer never exceeds its images, however slowly it is read: painted bytes that were not yet taken are merged.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field, replace

import numpy as np

from scanline.model.sampling.messages import (
    Event,
    Failed,
    Finished,
    Pixels,
    Request,
    Scheduled,
    Scored,
    ScoreRequest,
    StateSnapshot,
    StepNumbers,
)
from scanline.server.engine.queue_limits import Reservation


class EngineFailedError(Exception):
    """An accepted request failed; the message is one sentence."""

    def __init__(self, message: str, code: str = "engine_failed") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Update:
    """What happened to a job since its last update."""

    frames: list[tuple[int, int, bytes]]  # image index, first byte position, bytes
    finished: list[int]  # image indices
    snapshot: StateSnapshot | None = None  # the newest state
    provisional: list[int] = field(default_factory=list)  # images that have new bytes which may still change


def slots_of(request: Request, images: Collection[int]) -> int:
    """Return the slots that so many images of a request take together; a read counts as one."""
    if isinstance(request, ScoreRequest) or (request.particles == 1 and not request.is_guided):
        return len(images)
    return sum(map(request.slots_of, images))


class PendingJob:
    """A request and which of its images are not done; subclasses keep their bytes. An image has a slot for each of its
    particles, or two where it is guided."""

    coalesced = 0  # frames that were merged because the one before them had not been taken
    queue_seconds: float | None = None  # until its first image had a slot; a read has none

    def __init__(self, request: Request) -> None:
        self.request, self.id = request, request.id
        self.total = len(request.indices)
        self.missing = set(request.indices)
        self.slots_left = slots_of(request, self.missing)
        self.failure: Failed | None = None
        self.reservation: Reservation | None = None  # the room that it gives back image by image
        self.changed = asyncio.Event()  # by any event of the engine
        self.ended = asyncio.Event()

    @property
    def images_left(self) -> int:
        """Images that are not done."""
        return len(self.missing)

    @property
    def has_ended(self) -> bool:
        """Whether the engine has nothing more to do for it."""
        return self.failure is not None or not self.missing

    @property
    def unread_bytes(self) -> int:
        """Bytes of finished images that are kept until the request is answered."""
        return 0

    @property
    def remainder(self) -> Request:
        """The request that an engine must be sent so that all images get done."""
        if self.images_left == self.total:
            return self.request
        return replace(self.request, only=tuple(sorted(self.missing)))

    def receive(self, event: Event) -> None:
        """Take in an event of the engine."""
        match event:
            case Finished() | Scored():
                if event.index in self.missing:
                    self.missing.remove(event.index)
                    self.slots_left -= slots_of(self.request, (event.index,))
                if self.reservation is not None:
                    self.reservation.update(self.slots_left, self.unread_bytes)
            case Failed():
                self.failure = event
                if self.reservation is not None:
                    self.reservation.give_up()
        self.changed.set()
        if self.has_ended:
            self.ended.set()
            if self.reservation is not None and self.reservation.on_ended is not None:
                self.reservation.on_ended()

    async def wait(self) -> None:
        """Return when all images are done; EngineFailedError where the request failed."""
        await self.ended.wait()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise EngineFailedError(self.failure.message, self.failure.code)


class TotalsJob(PendingJob):
    """A ScoreRequest of which only the bits of whole images are kept."""

    def __init__(self, request: ScoreRequest) -> None:
        super().__init__(request)
        self.totals = np.full(self.total, np.nan)

    def receive(self, event: Event) -> None:
        """Take in an event of the engine."""
        if isinstance(event, Scored):
            self.totals[event.index] = np.frombuffer(event.bits).sum()
        super().receive(event)


class StepsJob(PendingJob):
    """A ScoreRequest of one image whose inspected steps are kept."""

    steps: StepNumbers | None = None

    def receive(self, event: Event) -> None:
        """Take in an event of the engine."""
        if isinstance(event, Scored):
            self.steps = event.steps
        super().receive(event)

    @property
    def unread_bytes(self) -> int:
        """Bytes of the numbers, which are kept until the request is answered."""
        return 0 if self.steps is None else sum(map(len, self.steps.arrays.values()))


class CodesJob(PendingJob):
    """A ScoreRequest of which the intervals of each image's bytes are kept until they are encoded."""

    def __init__(self, request: ScoreRequest) -> None:
        super().__init__(request)
        self.intervals: dict[int, bytes] = {}  # by image, as in Scored; those of each are as many
        self.interval_bytes = 0  # of an image

    def receive(self, event: Event) -> None:
        """Take in an event of the engine."""
        if isinstance(event, Scored):
            self.intervals[event.index], self.interval_bytes = event.intervals, len(event.intervals)
        super().receive(event)

    @property
    def unread_bytes(self) -> int:
        """Bytes of the intervals that are not encoded yet."""
        return len(self.intervals) * self.interval_bytes


class Job(PendingJob):
    """A request that keeps its images, of `length` bytes each, in the order of its indices: by these *rows* they are
    known here, which are the indices themselves where all images are wanted.

    After a crash a new engine paints an image from its first byte: bytes that are here already come again, unchanged,
    and are not passed on twice.
    """

    def __init__(self, request: Request, length: int) -> None:
        super().__init__(request)
        self.rows = None if request.only is None else {index: row for row, index in enumerate(request.only)}
        self.image_bytes = length * (8 if isinstance(request, ScoreRequest) else 1)  # bits are float64
        self.images = np.zeros((self.total, length), np.uint8)
        self.painted = np.zeros(self.total, np.int64)  # bytes that are here
        self.provisional = np.zeros(self.total, np.int64)  # where bytes end that follow those and may still change
        self.taken = np.zeros(self.total, np.int64)  # bytes that `updates` has returned
        self.bits_per_dim = np.full(self.total, np.nan)
        self.evidence_bits = np.full(self.total, np.nan)  # NaN stays where an image is no completion
        self.effective_particles = np.full(self.total, np.nan)
        self.labels: dict[int, int] = {}  # that codes say of images
        self.bits: dict[int, np.ndarray] = {}  # of every byte, by image, of a ScoreRequest
        self.finished: list[int] = []  # images, not yet returned by `updates`
        self.changing: set[int] = set()  # images with new provisional bytes, not yet returned by `updates`
        self.snapshot: StateSnapshot | None = None  # the newest, not yet returned by `updates`
        self.snapshot_position = 0  # of image 0 in the newest snapshot

    @property
    def unread_bytes(self) -> int:
        """Bytes of finished images; they are kept until the request is answered, by however slow a reader."""
        return (self.total - self.images_left) * self.image_bytes

    def receive(self, event: Event) -> None:
        """Take in an event of the engine; an image that is done stays as it is."""
        match event:
            case Scheduled():
                if self.queue_seconds is None:
                    self.queue_seconds = event.queue_seconds
            case Pixels():
                for index, first, data in event.painted:
                    row = self._row(index)
                    self.coalesced += int(first + len(data) > self.painted[row] > self.taken[row])
                    self._write(row, first, data)
                for index, first, data in event.provisional:
                    self._write_provisional(self._row(index), first, data)
            case StateSnapshot():
                if event.position > self.snapshot_position:
                    self.snapshot, self.snapshot_position = event, event.position
            case Finished() if event.index in self.missing:
                row = self._row(event.index)
                self._write(row, 0, event.image)
                self.bits_per_dim[row] = event.bits_per_dim
                if event.evidence_bits is not None and event.effective_particles is not None:
                    self.evidence_bits[row] = event.evidence_bits
                    self.effective_particles[row] = event.effective_particles
                if event.label:
                    self.labels[row] = event.label
                self.finished.append(row)
            case Scored():
                self.bits[event.index] = np.frombuffer(event.bits)
        super().receive(event)

    async def updates(self) -> AsyncIterator[Update]:
        """Yield what has been painted since the last update, merged, until all is; EngineFailedError on failure."""
        while True:
            self.changed.clear()
            self._raise_failure()
            fresh = np.flatnonzero(self.painted > self.taken)
            frames = [
                (int(i), int(self.taken[i]), self.images[i, self.taken[i] : self.painted[i]].tobytes()) for i in fresh
            ]
            self.taken[fresh] = self.painted[fresh]
            finished, self.finished = self.finished, []
            snapshot, self.snapshot = self.snapshot, None
            changing, self.changing = sorted(self.changing), set()
            if frames or finished or snapshot or changing:
                yield Update(frames, finished, snapshot, changing)
            elif self.has_ended:
                return
            else:
                await self.changed.wait()

    def _row(self, index: int) -> int:
        """Return the row of an image of the request."""
        return index if self.rows is None else self.rows[index]

    def _write(self, index: int, first: int, data: bytes) -> None:
        self.images[index, first : first + len(data)] = np.frombuffer(data, np.uint8)
        self.painted[index] = max(self.painted[index], first + len(data))

    def _write_provisional(self, index: int, first: int, data: bytes) -> None:
        """Keep bytes that may still change, but for those whose place has final ones: an engine that paints an image
        anew has not come so far yet."""
        known, stop = int(self.painted[index]), first + len(data)
        if known < stop:
            self.images[index, max(known, first) : stop] = np.frombuffer(data, np.uint8)[max(0, known - first) :]
            self.provisional[index] = stop
            self.changing.add(index)
