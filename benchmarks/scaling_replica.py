"""One replica of the simulation: slots, and images in them that advance together, one byte a step.

So steps are a clock of the replica's own: an image seated at step k is done at step k + its bytes, whoever comes or
goes meanwhile; only how fast the clock runs depends on how many there are. Exact but for joining between two steps,
where an engine admits between two ticks (25 ms), and for a part of a step, which counts as a part of a byte.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True)
class Machine:
    """What a replica runs on: a step that paints one byte of each of b images takes fixed + each * b seconds."""

    name: str
    steps: int  # bytes of an image
    slots: int
    fixed: float
    each: float

    def step_seconds(self, images: int) -> float:
        return self.fixed + self.each * images

    def image_seconds(self, images: int) -> float:
        """Of one image, from its first byte to its last, among so many."""
        return self.steps * self.step_seconds(images)

    @property
    def rate(self) -> float:
        """Images a second with every slot in use: what is called capacity."""
        return self.slots / self.image_seconds(self.slots)

    def within(self, seconds: float) -> float:
        """How many images may be in flight so that one takes no longer."""
        return (seconds / self.steps - self.fixed) / self.each


@dataclass
class Request:
    """So many images that somebody waits for since `arrived`; over when none is left."""

    arrived: float
    images: int
    unsent: int = field(init=False)  # images that wait at the front
    left: int = field(init=False)  # images that are not painted
    done: float = inf

    def __post_init__(self) -> None:
        self.unsent = self.left = self.images


@dataclass(eq=False)
class Front:
    """Who takes requests and hands out their images."""

    turns: deque[Request] = field(default_factory=deque)  # with images unsent, whose turn is next at the left
    out: int = 0  # images that are with replicas


@dataclass(eq=False)
class Piece:
    """Images of a request that one replica paints; what of it is lost with the replica is painted again elsewhere."""

    request: Request
    images: int
    steps: float
    front: Front
    unseated: int = field(init=False)
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.unseated = self.left = self.images


class Replica:
    """Invariant: seated + waiting images = images; every piece has images here."""

    def __init__(self, machine: Machine, now: float) -> None:
        self.machine = machine
        self.clock, self.at = 0.0, now  # steps so far, and when that was
        self.seated = self.images = 0
        self.ends: list[tuple[float, int, int, Piece]] = []  # clock, order, images, piece
        self.turns: deque[Piece] = deque()  # pieces with unseated images, whose turn is next at the left
        self.pieces: dict[Piece, None] = {}
        self.order = 0
        self.version = 0  # of what is to happen here; a plan of an older one is void
        self.is_leaving = self.is_over = False
        self.painted = self.lost = 0.0  # bytes; those lost are among the painted
        self.image_seconds = 0.0  # integral of images over time

    def add(self, now: float, piece: Piece) -> None:
        self.advance(now)
        self.images += piece.left
        self.pieces[piece] = None
        self.turns.append(piece)
        if not self.is_over:
            self._seat()

    def finish(self, now: float) -> dict[Piece, int]:
        """Ends the images that are due: how many of which piece."""
        self.advance(now)
        self.clock = max(self.clock, self.ends[0][0])  # rounding must not leave the next end just ahead
        ended: dict[Piece, int] = {}
        while self.ends and self.ends[0][0] <= self.clock:
            _, _, images, piece = heapq.heappop(self.ends)
            piece.left -= images
            assert piece.left >= 0, "an image was painted twice"
            self.seated -= images
            self.images -= images
            if not piece.left:
                del self.pieces[piece]
            ended[piece] = ended.get(piece, 0) + images
        self._seat()
        return ended

    def next_end(self) -> float:
        """When the next image is done if nobody comes; inf where none is painted."""
        if not self.ends:
            return inf
        return self.at + max(0.0, self.ends[0][0] - self.clock) * self.machine.step_seconds(self.seated)

    def die(self, now: float) -> None:
        """Paints no more; the images that it has not done are here still, as blank as when they came."""
        self.end(now)
        self.lost = sum(images * (self.clock - end + piece.steps) for end, _, images, piece in self.ends)
        self.ends.clear()
        self.seated = 0
        for piece in self.pieces:
            piece.unseated = piece.left

    def end(self, now: float) -> None:
        """Paints no more."""
        self.advance(now)
        self.is_over = True
        self.version += 1

    def advance(self, now: float) -> None:
        """Lets the clock run up to `now`."""
        passed, self.at = now - self.at, now
        self.image_seconds += self.images * passed
        if self.seated and not self.is_over:
            steps = passed / self.machine.step_seconds(self.seated)
            self.clock += steps
            self.painted += steps * self.seated

    def _seat(self) -> None:
        """Free slots go round robin over the pieces that wait, as the engine's scheduler gives them."""
        free = self.machine.slots - self.seated
        while free and self.turns:
            piece = self.turns.popleft()
            images = min(piece.unseated, max(1, free // (len(self.turns) + 1)))
            piece.unseated -= images
            self.order += 1
            heapq.heappush(self.ends, (self.clock + piece.steps, self.order, images, piece))
            self.seated += images
            free -= images
            if piece.unseated:
                self.turns.append(piece)
