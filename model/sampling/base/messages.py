"""Messages between an engine and its client: requests go in, events come back in order.

Every accepted request ends in exactly one of: its last Finished or Scored, one Failed, or nothing
more after a Cancel. Events travel in lists; an empty list is a heartbeat. Imports no torch.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from scanline.model.base.sampling_options import LEAST_DIVISOR, SamplingParams, has_class, label_of
from scanline.model.formats.code_file import Codes
from scanline.model.sampling.base.histogram import BATCHES, LATENCIES, STEPS, Histogram
from scanline.model.sampling.kinds.best_of import BestOf
from scanline.model.sampling.kinds.evidence import Evidence
from scanline.model.sampling.kinds.guided import Guided
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind
from scanline.model.sampling.kinds.particles import Particles, are_weighed
from scanline.model.sampling.kinds.plain import PLAIN

if TYPE_CHECKING:
    from scanline.model.base.config import ModelConfig


class ImagesRequest:
    """Images that are asked for together, to be painted or to be read."""

    @property
    def indices(self) -> Sequence[int]:
        """The images that are still to be done, in order."""
        raise NotImplementedError

    @property
    def reads_class_head(self) -> bool:
        """Whether an engine without a class head, or with another one, must refuse it."""
        return False

    def kind_of(self, index: int) -> Kind:
        """Return the kind of image `index`; one that is read counts as one that takes a slot."""
        return PLAIN

    def slots_of(self, images: Collection[int]) -> int:
        """Return how many slots images of the request take together."""
        return sum(self.kind_of(index).slots for index in images)

    @property
    def slots(self) -> int:
        """How many slots all images that are still to be done take together."""
        return self.slots_of(self.indices)


@dataclass(frozen=True)
class GenerateRequest(ImagesRequest, SamplingParams):
    """Paint `n` images; where there are known images, image i completes known[i * len(known) // n].

    The one description of a request from the API to its slots.
    """

    id: int
    n: int
    seed: int
    known: tuple[bytes, ...] = ()  # of N bytes each
    masks: tuple[bytes, ...] = ()  # of N bytes each, 1 where a byte is known
    stream: bool = False  # send Pixels as they are painted, not only Finished images
    # and in them what an image's first candidate has beyond the bytes that are final
    provisional: bool = False
    # a layer and a head, whose state is sent while image 0 is painted
    snapshot: tuple[int, int] | None = None
    only: tuple[int, ...] | None = None  # the images that are still to be painted; None: all
    client: str = ""  # who asked: slots are shared between clients first
    digest: str = ""  # of the model that must paint it (Ready.digest); empty: any
    # What images are painted from in place of random numbers: at
    # temperature 1, with nothing known or guided.
    codes: Codes | None = None

    @property
    def indices(self) -> Sequence[int]:
        return range(self.n) if self.only is None else self.only

    @property
    def reads_class_head(self) -> bool:
        return self.best_of > 1

    @property
    def known_bytes(self) -> int:
        """Bytes that need no painting, all images together."""
        copies = self.n // len(self.masks) if self.masks else 0
        return copies * sum(mask.count(1) for mask in self.masks)

    def known_bytes_of(self, index: int) -> int:
        """Return the bytes of one image that need no painting."""
        source = self.source(index)
        return 0 if source is None else self.masks[source].count(1)

    def prefix_of(self, index: int) -> int:
        """Return how many bytes of one image are known before its first unknown one."""
        source = self.source(index)
        if source is None:
            return 0
        unknown = self.masks[source].find(0)
        return len(self.masks[source]) if unknown < 0 else unknown

    def known_pixels(self, config: "ModelConfig") -> np.ndarray | None:
        """Return which pixels of each image need no painting, bool [n,
        H, W]; None where there are none.
        """
        if not self.masks:
            return None
        masks = np.frombuffer(b"".join(self.masks), np.bool_)
        pixels = masks.reshape(-1, config.height, config.width, config.channels)[..., 0]
        return pixels.repeat(self.n // len(self.masks), axis=0)

    def source(self, index: int) -> int | None:
        """Return which of `known` image `index` completes."""
        return index * len(self.known) // self.n if self.known else None

    def label_of(self, index: int) -> int:
        """Return the label of one image."""
        return label_of(self.label, self.seed, index)

    def candidates_of(self, index: int) -> int:
        """Return how many candidates image `index` has for the class head."""
        return self.best_of if has_class(self.label, index) else 1

    def kind_of(self, index: int) -> Kind:
        """Return the kind of image `index`, but for codes, whose
        kind has a state (kinds/coded.py).
        """
        kind: Kind = PLAIN
        source = self.source(index)
        if self.guidance != 1 and has_class(self.label, index):
            kind = Guided(self.guidance)
        elif self.particles > 1 and source is not None and are_weighed(self.masks[source]):
            kind = Particles(self.particles)
        candidates = self.candidates_of(index)
        return kind if candidates == 1 else BestOf(candidates, kind)

    @property
    def largest_kind(self) -> Kind:
        """The kind of the image that takes the most slots."""
        return max(map(self.kind_of, self.indices), key=attrgetter("slots"), default=PLAIN)

    def image(self, index: int) -> ImageSpec:
        """Return image `index` as a generator paints it, in the first of its slots."""
        source = self.source(index)
        known = mask = None
        if source is not None:
            known = np.frombuffer(self.known[source], np.uint8)
            mask = np.frombuffer(self.masks[source], np.bool_)
        temperature = max(self.temperature, LEAST_DIVISOR)
        label = self.label_of(index)
        spec = ImageSpec(self.seed, index, known, mask, label=label, temperature=temperature)
        return self.kind_of(index).drawn(spec)

    def shard(self, indices: tuple[int, ...]) -> "GenerateRequest":
        """Return the same request for some of its images, without what is
        known of the others, and their codes.
        """
        needed = {self.source(index) for index in indices}
        known = tuple(image if source in needed else b"" for source, image in enumerate(self.known))
        masks = tuple(mask if source in needed else b"" for source, mask in enumerate(self.masks))
        codes = self.codes
        if codes is not None:
            parts = {index // codes.length for index in indices}
            codes = replace(
                codes,
                codes=tuple(code if i in parts else b"" for i, code in enumerate(codes.codes)),
            )
        return replace(self, known=known, masks=masks, codes=codes, only=indices)


@dataclass(frozen=True)
class StepRange:
    """Steps whose numbers are reported of an image that is read, in one layer and head: those of
    the bytes `first` to `stop` - 1."""

    layer: int
    head: int
    first: int
    stop: int


@dataclass(frozen=True)
class ScoreRequest(ImagesRequest):
    """Report the bits of every byte of each image (N bytes each)."""

    id: int
    images: tuple[bytes, ...]
    labels: tuple[int, ...] = ()  # of each image, as in GenerateRequest; empty: all 0
    tolerances: tuple[int, ...] = ()  # of each image, as in Backend.prefill; empty: all 0
    # each image is read to its stop only, and Scored has the numbers of the steps
    inspected: StepRange | None = None
    coded: bool = False  # Scored has the bytes' intervals; at tolerance 0, without inspected steps
    # Scored of an image with label 0 has the answer of the class head, which there must be
    classified: bool = False
    only: tuple[int, ...] | None = None  # the images that are still to be scored; None: all
    client: str = ""  # who asked: turns are shared between clients first
    # of the model that must score them, and of its class head where it is read; empty: any
    digest: str = ""

    @property
    def indices(self) -> Sequence[int]:
        return range(len(self.images)) if self.only is None else self.only

    @property
    def reads_class_head(self) -> bool:
        return self.classified

    def label_of(self, index: int) -> int:
        """Return the label of one image."""
        return self.labels[index] if self.labels else 0

    def tolerance_of(self, index: int) -> int:
        """Return the tolerance of one image."""
        return self.tolerances[index] if self.tolerances else 0

    def shard(self, indices: tuple[int, ...]) -> "ScoreRequest":
        """Return the same request for some of its images, without the others."""
        wanted = set(indices)
        images = tuple(image if index in wanted else b"" for index, image in enumerate(self.images))
        return replace(self, images=images, only=indices)


Request = GenerateRequest | ScoreRequest


@dataclass(frozen=True)
class Cancel:
    """Drop a request, waiting or in progress."""

    request: int


@dataclass(frozen=True)
class Stop:
    """Exit at once; requests in progress are lost."""


Command = Request | Cancel | Stop


@dataclass(frozen=True)
class Ready:
    """The model is loaded and the engine accepts requests."""

    parameters: int
    slots: int
    device: str
    state_bytes: int  # of an image in flight
    backend: str  # what runs its steps, in words
    # of everything that decides which bytes are painted; equal digests paint equal bytes
    digest: str = ""
    backend_name: str = ""  # as --backend names it
    fallbacks: tuple[str, ...] = ()  # for each faster backend, "name: why it is not used"
    # of everything that decides what a code paints: of new files, and of earlier ones
    codings: tuple[str, ...] = ("",)
    class_head: str = ""  # the digest of the class head; empty: there is none

    @property
    def whole_digest(self) -> str:
        """The digests of the model and of its class head. It begins with the digest
        of every request that is for it.
        """
        return self.digest + self.class_head

    def head_for(self, request: Request) -> str:
        """Return what a request that is for this model has in its
        digest behind that of the model.
        """
        return self.class_head if request.reads_class_head else ""

    @property
    def coding(self) -> str:
        """The digest of new files of codes: models with an equal one decode each other's."""
        return self.codings[0]


@dataclass(frozen=True)
class CannotLoad:
    """The model cannot be loaded and the engine exits; the message is one sentence."""

    message: str


@dataclass(frozen=True)
class Scheduled:
    """A request's first image has a slot, so many seconds after the engine accepted the request."""

    request: int
    queue_seconds: float


@dataclass(frozen=True)
class Pixels:
    """Bytes painted in this tick: (image index, first byte position, bytes) each.

    Those painted are final. Where the request asks for them, the provisional ones follow:
    of an image whose candidates differ there, the bytes of its first one, in whose place
    later events may have others.
    """

    request: int
    painted: list[tuple[int, int, bytes]]
    provisional: Sequence[tuple[int, int, bytes]] = ()


@dataclass(frozen=True)
class StateSnapshot:
    """The state of one layer and head of image 0, after the bytes before
    `position`: float32 in native order.
    """

    request: int
    position: int
    s: bytes  # [C, M]
    z: bytes  # [C]


@dataclass(frozen=True)
class Finished(Evidence[float]):
    """One image is complete: all its bytes, and its bits/dim at temperature 1."""

    request: int
    index: int
    image: bytes
    bits_per_dim: float
    label: int = 0  # that it was painted with


@dataclass(frozen=True)
class StepNumbers:
    """The numbers of n steps of an image, in one layer and head."""

    # float32: q k v phi_q phi_k y [n, .], s z [n + 1, .] from before the first step,
    arrays: Mapping[str, bytes]
    # probabilities [n, bytes of a step, 256]


@dataclass(frozen=True)
class Scored:
    """One image's bits, N float64 in native order; up to the inspected steps,
    with their numbers, where there are.
    """

    request: int
    index: int
    bits: bytes
    steps: StepNumbers | None = None
    # of a request to be coded: start and width of each byte in coder.TOTAL, [N, 2] uint32
    intervals: bytes = b""
    answer: bytes = b""  # of the class head, K + 1 float32


@dataclass(frozen=True)
class Failed:
    """A request failed through no fault of its own; the message is one sentence."""

    request: int
    message: str
    code: str = "engine_failed"  # for programs
    param: str | None = None  # the value that the engine refuses


@dataclass
class Stats:
    """What the engine does now and has done since it started; the newest that is sent replaces
    those before it. The engine counts in one, IN PLACE, and sends copies.
    """

    # at least one of their images has had a slot, or its scoring has begun
    requests_running: int = 0
    requests_waiting: int = 0
    images_running: int = 0  # in slots
    images_waiting: int = 0  # for a slot, or to be scored
    scores_running: int = 0  # images that are being scored; they have no slot
    # By steps, but for the shared ones; known bytes from the step of the
    # first unknown one on are counted, too.
    painted_bytes: int = 0
    known_bytes: int = 0  # prefilled
    # of painted_bytes, those of beginnings that other images had painted before
    shared_bytes: int = 0
    steps: int = 0  # passes of the batch
    computed_rows: int = 0  # steps of images in them
    wrong_guesses: int = 0  # of next bytes; the steps after one were computed for nothing
    # from accepted to its first slot
    queue: Histogram = field(default_factory=lambda: Histogram(LATENCIES))
    # from accepted to its first byte
    first_pixel: Histogram = field(default_factory=lambda: Histogram(LATENCIES))
    step_seconds: Histogram = field(default_factory=lambda: Histogram(STEPS))
    step_images: Histogram = field(default_factory=lambda: Histogram(BATCHES))

    @property
    def done(self) -> "Stats":
        """What has been done, without what is done now."""
        return replace(
            self,
            requests_running=0,
            requests_waiting=0,
            images_running=0,
            images_waiting=0,
            scores_running=0,
        )

    def __add__(self, other: "Stats") -> "Stats":
        """Return the stats of two engines together."""
        return Stats(
            *(
                getattr(self, counted.name) + getattr(other, counted.name)
                for counted in fields(self)
            )
        )


Event = Ready | CannotLoad | Scheduled | Pixels | StateSnapshot | Finished | Scored | Failed | Stats
