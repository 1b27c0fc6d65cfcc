"""The prefix tree: beginnings that several images have painted, with the state
after each, from which others start.

Images that have painted the same bytes have the same state, whatever their random numbers: nearly
all digits begin with the same hundred black pixels. So the parameters of the distributions along
such a beginning are kept. A new image draws its bytes from them, with its own random numbers, until
one differs; it starts from the last state before that byte, and has the bytes and the bits that it
would have had from the start. The same idea for prompts: RadixAttention (Zheng et al. 2024,
https://arxiv.org/abs/2312.07104, section 3).

The tree grows by what two of the last images have in common, one segment a tick, and forgets what
was not used for longest. Where images have nothing in common, as colour ones do, it stays empty
and costs a comparison for each image.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np
import torch

from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.base.config import ModelConfig
from scanline.model.base.state import State
from scanline.model.sampling.base.prefill_state import Prefix
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind

MAX_BYTES = 64 << 20  # of states and parameters
RECENT = 32  # images that a finished one is compared with
# images that start until an unused segment may be forgotten: else labels could take turns for ever
KEPT = 256


@dataclass(frozen=True)
class Segment:
    """The parameters [n, P] of a segment's steps for one label, and the state after them."""

    parameters: torch.Tensor
    prefix: Prefix

    @property
    def bytes(self) -> int:
        """The memory that it takes."""
        return self.parameters.nbytes + self.prefix.state.nbytes + len(self.prefix.painted)


@dataclass(eq=False)
class Node:
    """A painted beginning, and those that are one segment longer."""

    painted: bytes
    parent: "Node | None" = None
    # the last one of the beginning, by label
    segments: dict[int, Segment] = field(default_factory=dict)
    longer: dict[bytes, "Node"] = field(default_factory=dict)  # by their last segments


class PrefixTree:
    """Invariant: a node has a label's segment only where its parent has one, the root aside; `used`
    has them all, each parent's after its children's."""

    def __init__(self, config: ModelConfig, backend: CpuBackend) -> None:
        self.config = config
        self.backend = backend
        self.most_bytes = MAX_BYTES
        self.length = max(1, config.width // 2) * config.step_bytes  # of a segment, in bytes
        self.root = Node(b"")
        # by which image last; the longest unused first
        self.used: OrderedDict[tuple[Node, int], int] = OrderedDict()
        self.bytes = 0  # of all segments
        self.images = 0  # that have started
        # seed, index and bytes of images
        self.recent: deque[tuple[int, int, bytes]] = deque(maxlen=RECENT)
        # by label: a beginning that several images have painted
        self.growing: dict[int, bytes] = {}

    def match(self, kind: Kind, specs: Sequence[ImageSpec]) -> list[Prefix | None]:
        """Return where the specs of one image start, one for each of its slots.

        All start at one position, since candidates are resampled together.
        """
        self.images += 1
        labels = kind.labels(specs[0].label)
        stop = self._own(specs[0])
        candidates = specs[:: len(specs) // kind.candidates]
        ends = [self._last(spec, labels, stop) for spec in candidates]
        position = min(len(end.painted) for end in ends)
        if not position:
            return [None] * len(specs)
        starts: list[Prefix | None] = []
        for end in ends:
            while len(end.painted) > position:
                assert end.parent is not None
                end = end.parent
            starts += [end.segments[label].prefix for label in labels]
            self._use(end, labels)
        return starts

    def _own(self, spec: ImageSpec) -> int:
        """Return how many bytes an image paints before the first known one."""
        return (
            self.config.bytes
            if spec.mask is None or not spec.mask.any()
            else int(spec.mask.argmax())
        )

    def _last(self, spec: ImageSpec, labels: Sequence[int], stop: int) -> Node:
        """Return the longest beginning, of at most `stop` bytes, that an image paints."""
        node = self.root
        while (
            len(node.painted) + self.length <= stop
            and (found := self._next(node, spec, labels)) is not None
        ):
            node = found
        return node

    def _next(self, node: Node, spec: ImageSpec, labels: Sequence[int]) -> Node | None:
        """Return which of the beginnings after `node` an image paints."""
        position = len(node.painted)
        painted = b""  # by the image after `node`, as far as is known
        for path, longer in node.longer.items():
            if not path.startswith(painted) or not longer.segments.keys() >= set(labels):
                continue
            # with its class and, of a guided image, without
            parameters = [longer.segments[label].parameters for label in labels]
            without = parameters[1] if len(parameters) > 1 else None
            steps, drawn = self.backend.network.follow(
                parameters[0],
                without,
                path,
                position=position,
                **spec.drawing,
            )
            if steps == len(parameters[0]):
                return longer
            painted = path[: steps * self.config.step_bytes] + drawn
        return None

    def add(self, spec: ImageSpec, labels: Sequence[int], image: bytes) -> None:
        """Note a finished image, and what of it others have painted
        before: those of other random numbers.
        """
        image = image[: self._own(spec)]
        others = (
            other for seed, index, other in self.recent if (seed, index) != (spec.seed, spec.index)
        )
        alike = min(
            max((common_bytes(image, other) for other in others), default=0), self.config.bytes - 1
        )
        self.recent.append((spec.seed, spec.index, image))
        if beginning := image[: alike - alike % self.length]:
            for label in labels:
                is_missing = len(self._find(label, beginning).painted) < len(beginning)
                if is_missing and not self.growing.get(label, b"").startswith(beginning):
                    self.growing[label] = beginning

    def _find(self, label: int, beginning: bytes) -> Node:
        """Return the last node on the way to a beginning that has a segment for a label."""
        node = self.root
        while (after := self._child(node, beginning)) is not None and label in after.segments:
            node = after
        return node

    def _child(self, node: Node, beginning: bytes) -> Node | None:
        return node.longer.get(beginning[len(node.painted) : len(node.painted) + self.length])

    def insert(self) -> None:
        """Add one segment of what several images have painted, if any is
        missing and there is room for it.
        """
        if not self.growing:
            return
        label, beginning = next(iter(self.growing.items()))
        node = self._find(label, beginning)
        self._use(node, [label])  # else the room for what follows it might be made by forgetting it
        stop = len(node.painted) + self.length
        segment = self._read(node, label, beginning[:stop]) if stop <= len(beginning) else None
        if segment is None or not self._evict(segment.bytes):
            del self.growing[label]
            return
        after = self._child(node, beginning)
        if after is None:
            after = Node(segment.prefix.painted, node)
            node.longer[beginning[len(node.painted) : stop]] = after
        after.segments[label] = segment
        self.bytes += segment.bytes
        self.used[after, label] = self.images
        self._use(after, [label])

    @torch.inference_mode()
    def _read(self, node: Node, label: int, painted: bytes) -> Segment | None:
        """Return the segment of a label after `node` that ends `painted`;
        None where its bits are not finite.
        """
        stop = len(painted)
        image = torch.zeros(1, self.config.bytes, dtype=torch.uint8)
        image[0, :stop] = torch.frombuffer(bytearray(painted), dtype=torch.uint8)
        if node is self.root:
            bits = 0.0
            state = State.zeros(self.config, 1)
        else:
            before = node.segments[label].prefix
            bits = before.bits
            state = before.state.copy()
        batch = PrefillBatch.of(image, state, np.array([stop]), torch.tensor([label]))
        costs, parameters = self.backend.prefill_parameters(batch)
        for cost in costs[0].tolist():  # one byte after the other, as painting adds them
            bits += cost
        if not isfinite(bits):
            return None
        return Segment(parameters[0], Prefix(state, stop, bits, painted))

    def _use(self, node: Node, labels: Sequence[int]) -> None:
        """Note that images start from a node: it and those before it are forgotten last."""
        at: Node | None = node
        while at is not None and at is not self.root:
            for label in labels:
                self.used[at, label] = self.images
                self.used.move_to_end((at, label))
            at = at.parent

    def _evict(self, wanted: int) -> bool:
        """Forget segments that were not used for long; return whether
        there is room for so many bytes.
        """
        while self.bytes + wanted > self.most_bytes:
            if not self.used or self.images - next(iter(self.used.values())) < KEPT:
                return False
            (node, label), _ = self.used.popitem(last=False)
            self.bytes -= node.segments.pop(label).bytes
            if not node.segments:
                assert node.parent is not None
                del node.parent.longer[node.painted[-self.length :]]
        return True


def common_bytes(one: bytes, other: bytes) -> int:
    """Return with how many same bytes two images begin."""
    length = min(len(one), len(other))
    differs = np.frombuffer(one, np.uint8, length) != np.frombuffer(other, np.uint8, length)
    return int(differs.argmax()) if differs.any() else length
