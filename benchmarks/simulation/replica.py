"""One simulated replica: slots whose images advance together, a step at a time.

So each replica has a clock that counts steps: an image that starts at step k is finished at step k + its steps,
whatever joins meanwhile; the number of images only sets the clock's speed. Two approximations: images join at
any time, where an engine admits them between ticks (25 ms), and a fraction of a step counts as one.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True)
class Machine:
    """A replica's hardware: a step of each of b images takes fixed + each * b seconds."""

    name: str
    steps: int  # of an image
    slots: int
    fixed: float
    each: float

    def step_seconds(self, images: int) -> float:
        return self.fixed + self.each * images

    def image_seconds(self, images: int) -> float:
        """Seconds of one image from its first byte to its last, with so many in flight."""
        return self.steps * self.step_seconds(images)

    @property
    def rate(self) -> float:
        """Capacity: images a second with every slot in use."""
        return self.slots / self.image_seconds(self.slots)


@dataclass
class Request:
    """A request for so many images; answered when none is left."""

    arrived: float
    images: int
    unsent: int = field(init=False)  # images that wait at the ingress
    left: int = field(init=False)  # images that are not painted
    done: float = inf

    def __post_init__(self) -> None:
        self.unsent = self.left = self.images


@dataclass(eq=False)
class Ingress:
    """Accepts requests and hands out their images in shards."""

    turns: deque[Request] = field(default_factory=deque)  # with unsent images, the next one first
    out: int = 0  # images that are with replicas


@dataclass(eq=False)
class Shard:
    """Images of a request on one replica."""

    request: Request
    images: int
    steps: float
    ingress: Ingress
    unstarted: int = field(init=False)
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.unstarted = self.left = self.images


class Replica:
    """Invariant: running + waiting images = images; every shard in `shards` has images here."""

    def __init__(self, machine: Machine, now: float) -> None:
        self.machine = machine
        self.clock, self.at = 0.0, now  # steps so far, and the time of the last update
        self.running = self.images = 0
        self.ends: list[tuple[float, int, int, Shard]] = []  # clock, order, images, shard
        self.turns: deque[Shard] = deque()  # shards with unstarted images, the next one first
        self.shards: dict[Shard, None] = {}
        self.order = 0
        self.version = 0  # of the plan for this replica; events of an older version are ignored
        self.painted = 0.0  # steps of images
        self.image_seconds = 0.0  # integral of images over time

    def add(self, now: float, shard: Shard) -> None:
        self.advance(now)
        self.images += shard.left
        self.shards[shard] = None
        self.turns.append(shard)
        self._fill_slots()

    def finish(self, now: float) -> dict[Shard, int]:
        """Finish the images that are due; return how many of which shard."""
        self.advance(now)
        self.clock = max(self.clock, self.ends[0][0])  # rounding must not leave the next end just ahead
        ended: dict[Shard, int] = {}
        while self.ends and self.ends[0][0] <= self.clock:
            _, _, images, shard = heapq.heappop(self.ends)
            shard.left -= images
            assert shard.left >= 0, "an image was painted twice"
            self.running -= images
            self.images -= images
            if not shard.left:
                del self.shards[shard]
            ended[shard] = ended.get(shard, 0) + images
        self._fill_slots()
        return ended

    def next_end(self) -> float:
        """Return when the next image is finished if none joins; at least one must be running."""
        return self.at + max(0.0, self.ends[0][0] - self.clock) * self.machine.step_seconds(self.running)

    def advance(self, now: float) -> None:
        """Advance the clock to `now`."""
        passed, self.at = now - self.at, now
        self.image_seconds += self.images * passed
        if self.running:
            steps = passed / self.machine.step_seconds(self.running)
            self.clock += steps
            self.painted += steps * self.running

    def _fill_slots(self) -> None:
        """Fill free slots round robin over the waiting shards, as the engine's scheduler does."""
        free = self.machine.slots - self.running
        while free and self.turns:
            shard = self.turns.popleft()
            images = min(shard.unstarted, max(1, free // (len(self.turns) + 1)))
            shard.unstarted -= images
            self.order += 1
            heapq.heappush(self.ends, (self.clock + shard.steps, self.order, images, shard))
            self.running += images
            free -= images
            if shard.unstarted:
                self.turns.append(shard)
