"""Jobs whose images wait for replicas, in the order in which clients get
shards: the client with the fewest first.

Clients are served before requests, so a client with a thousand requests gets no more
slots than one with a single request. Requests of one client take turns. The engine's own
queue (`model/sampling/base/round_robin.py`) goes round by turns instead: it gives single slots
as they become free, while a shard of a sixteenth of an engine per turn would let a new
client wait for the shards of all others.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from scanline.model.sampling.base.messages import GenerateRequest
from scanline.server.engine.job import Job


@dataclass(eq=False)
class ShardedJob:
    """A job that replicas work on in shards."""

    job: Job
    waiting: deque[int]  # images that were not dispatched, next first
    shards: set[asyncio.Task[None]] = field(default_factory=set)  # dispatched and not ended
    digest: str | None = None  # of the model of the first replica that answered; None until then

    def __post_init__(self) -> None:
        request = self.job.request
        self.code_length = 1  # images of a code
        self.last: dict[int, int] = {}  # the last image of each code that is wanted
        if isinstance(request, GenerateRequest) and request.codes is not None:
            self.code_length = request.codes.length
            self.last = request.codes.last_of(request.indices)
            self.digest = request.digest or None  # another model would decode something else
        self.slots = self.slots_of(self.waiting)  # of all its images

    @property
    def client(self) -> str:
        """The client of the request."""
        return self.job.request.client

    def is_followed(self, index: int) -> bool:
        """Return whether another of its images is decoded behind
        image `index`, from the same code.
        """
        return self.last.get(index // self.code_length, index) != index

    def slots_of(self, images: Collection[int]) -> int:
        """Return the slots that so many images take together; of a code's
        images the last one has that of all.
        """
        if not self.last:
            return self.job.request.slots_of(images)
        return sum(not self.is_followed(index) for index in images)


class FairQueue:
    """Invariant: `outstanding` of a client is the number of its images at
    replicas; a client with none is absent.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, deque[ShardedJob]] = {}  # by client; those served longest ago first
        self.outstanding: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Whether a job waits."""
        return bool(self.waiting)

    def add(self, sharded: ShardedJob) -> None:
        """Add a job with images that wait: it is the last of its client's."""
        self.waiting.setdefault(sharded.client, deque()).append(sharded)

    def pop(self) -> ShardedJob:
        """Remove and return the next job; ValueError where none waits."""
        client = min(self.waiting, key=lambda client: self.outstanding[client])
        jobs = self.waiting.pop(client)
        sharded = jobs.popleft()
        if jobs:
            self.waiting[client] = jobs  # now the last in the dictionary: ties go to the others
        return sharded

    def remove(self, sharded: ShardedJob) -> None:
        """Remove a job that has been cancelled, where it waits."""
        jobs = self.waiting.get(sharded.client)
        if jobs and sharded in jobs:
            jobs.remove(sharded)
            if not jobs:
                del self.waiting[sharded.client]

    def count(self, client: str, images: int) -> None:
        """Count images of a client that were dispatched, or came back where negative."""
        self.outstanding[client] += images
        if not self.outstanding[client]:
            del self.outstanding[client]
