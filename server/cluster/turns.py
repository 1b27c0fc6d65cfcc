"""Whose images an ingress hands out next: those of the client that has the fewest with replicas.

Clients are served before requests, so a client with a thousand requests gets no more slots than one with a single
request. Requests of one client take turns.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from scanline.server.engine.job import PendingJob


@dataclass(eq=False)
class Distribution:
    """A job and how far it has been handed out."""

    job: PendingJob
    waiting: deque[int]  # images that have not been handed out, next first
    shards: set[asyncio.Task[None]] = field(default_factory=set)  # those that are with replicas
    digest: str | None = None  # of the model of the first replica that answered; None until then

    def __post_init__(self) -> None:
        self.slots = self.job.slots_left  # of all its images

    @property
    def client(self) -> str:
        """Who asked for it."""
        return self.job.request.client


class Turns:
    """Invariant: `out` of a client is the number of its images that are with replicas; a client with none is absent."""

    def __init__(self) -> None:
        self.waiting: dict[str, deque[Distribution]] = {}  # by client; those served longest ago first
        self.out: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Whether there is something to hand out."""
        return bool(self.waiting)

    def __iter__(self) -> Iterator[Distribution]:
        return (one for requests in self.waiting.values() for one in requests)

    def add(self, one: Distribution) -> None:
        """Add a request with images that wait: it is the last of its client's."""
        self.waiting.setdefault(one.client, deque()).append(one)

    def pop(self) -> Distribution:
        """Remove and return the next request; IndexError where there is none."""
        if not self.waiting:
            raise IndexError("nothing waits")
        client = min(self.waiting, key=lambda client: self.out[client])
        requests = self.waiting.pop(client)
        one = requests.popleft()
        if requests:
            self.waiting[client] = requests  # now the last in the dictionary: ties go to the others
        return one

    def remove(self, one: Distribution) -> None:
        """Remove a request that has been cancelled, where it waits."""
        requests = self.waiting.get(one.client)
        if requests and one in requests:
            requests.remove(one)
            if not requests:
                del self.waiting[one.client]

    def count_out(self, one: Distribution, images: int) -> None:
        """Count images of a request that went to a replica, or came back where negative."""
        self.out[one.client] += images
        if not self.out[one.client]:
            del self.out[one.client]
