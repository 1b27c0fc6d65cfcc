"""All that crosses the process boundary. Commands go to the engine, events come back, in lists, in order.

Every accepted GenerateRequest or ScoreRequest ends in exactly one of: its last Finished or Scored, one Failed, or
nothing more after a Cancel. An engine that has nothing to say sends an empty list now and then: it lives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from scanline.model.sampling.histogram import BATCHES, LATENCIES, STEPS, Histogram


@dataclass(frozen=True)
class GenerateRequest:
    """Paint `images` images; image i is a completion of known[i * len(known) // images] where there are any."""

    request: int
    images: int
    seed: int
    temperature: float = 1.0
    known: tuple[bytes, ...] = ()  # of N bytes each
    masks: tuple[bytes, ...] = ()  # of N bytes each, 1 where a byte is known
    stream: bool = False  # tell bytes as they are painted, not only images as they end
    trace: tuple[int, int] | None = None  # a layer and a head whose state is told while image 0 is painted
    only: tuple[int, ...] | None = None  # the images that are still wanted; None: all

    @property
    def indices(self) -> Sequence[int]:
        """The images to paint, in order."""
        return range(self.images) if self.only is None else self.only

    def part(self, indices: tuple[int, ...]) -> "GenerateRequest":
        """The same request for some of its images, without what the others start from."""
        needed = {self.source(index) for index in indices}
        known = tuple(image if place in needed else b"" for place, image in enumerate(self.known))
        masks = tuple(mask if place in needed else b"" for place, mask in enumerate(self.masks))
        return replace(self, known=known, masks=masks, only=indices)

    def source(self, index: int) -> int | None:
        """Which of `known` image `index` completes."""
        return index * len(self.known) // self.images if self.known else None


@dataclass(frozen=True)
class ScoreRequest:
    """Tell the bits of every byte of each image (N bytes each)."""

    request: int
    images: tuple[bytes, ...]
    only: tuple[int, ...] | None = None  # the images whose bits are still wanted; None: all

    @property
    def indices(self) -> Sequence[int]:
        """The images to score, in order."""
        return range(len(self.images)) if self.only is None else self.only

    def part(self, indices: tuple[int, ...]) -> "ScoreRequest":
        """The same request for some of its images, without the others."""
        wanted = set(indices)
        images = tuple(image if place in wanted else b"" for place, image in enumerate(self.images))
        return replace(self, images=images, only=indices)


@dataclass(frozen=True)
class Cancel:
    """Nobody waits for this request any more."""

    request: int


@dataclass(frozen=True)
class Stop:
    """Leave, whatever is in work."""


Command = GenerateRequest | ScoreRequest | Cancel | Stop


@dataclass(frozen=True)
class Ready:
    """The model is loaded; painting can begin."""

    parameters: int
    slots: int
    device: str
    state_bytes: int  # of an image in flight
    backend: str  # what runs its steps, for people


@dataclass(frozen=True)
class CannotLoad:
    """The model cannot be loaded, and the engine leaves; the message is one sentence."""

    message: str


@dataclass(frozen=True)
class Scheduled:
    """A request's first image has got its slot, so many seconds after the engine accepted it."""

    request: int
    queue_seconds: float


@dataclass(frozen=True)
class Pixels:
    """Bytes painted in this tick: (image index, first byte position, bytes) each."""

    request: int
    painted: list[tuple[int, int, bytes]]


@dataclass(frozen=True)
class StateSnapshot:
    """The state of one layer and head of image 0, after the bytes before `position`: float32 in native order."""

    request: int
    position: int
    s: bytes  # [C, M]
    z: bytes  # [C]


@dataclass(frozen=True)
class Finished:
    """One image is done: all its bytes, and its bits/dim at temperature 1."""

    request: int
    index: int
    image: bytes
    bits_per_dim: float


@dataclass(frozen=True)
class Scored:
    """One image's bits, N float64 in native order."""

    request: int
    index: int
    bits: bytes


@dataclass(frozen=True)
class Failed:
    """A request ended through our own fault; the message is one sentence."""

    request: int
    message: str


@dataclass(frozen=True)
class Stats:
    """What the engine does and has done since it started; the newest replaces those before it."""

    requests_running: int = 0  # an image of theirs has been seated
    requests_waiting: int = 0
    images_running: int = 0
    images_waiting: int = 0
    painted_bytes: int = 0  # one by one, known bytes behind the first unknown one among them
    known_bytes: int = 0  # at the front of images: read at once
    steps: int = 0
    queue: Histogram = field(default_factory=lambda: Histogram(LATENCIES))  # from accepted to its first seat
    first_pixel: Histogram = field(default_factory=lambda: Histogram(LATENCIES))  # from accepted to its first byte
    step_seconds: Histogram = field(default_factory=lambda: Histogram(STEPS))
    step_images: Histogram = field(default_factory=lambda: Histogram(BATCHES))

    def __add__(self, other: "Stats") -> "Stats":
        """Of two engines together."""
        return Stats(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


Event = Ready | CannotLoad | Scheduled | Pixels | StateSnapshot | Finished | Scored | Failed | Stats
