"""The slots of a generator: arrays with one row for each image in flight. Owns no arithmetic.

Images join and leave in batches, so that the host does little for each: all that starts in a tick
is one block of memory that a device gets in one copy, and all that is fetched comes back in one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from scanline.kernels.codec.coder import Decoder, longest_code
from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.pending import Pending, to_device, to_host
from scanline.model.base.config import ModelConfig
from scanline.model.base.state import NUMBERS, State, with_deferred

# The arrays of an image besides its state. Placing it sets known_bits
# to 0 and all others from its arrival.
WEIGHING = ("evidence_bits", "effective_particles")
PLACED = (
    "images",
    "known",
    "bits",
    "seed",
    "index",
    "temperature",
    "label",
    "partner",
    "guidance",
    *WEIGHING,
)
DECODER = ("code_at", "code_value", "code_range")
ARRAYS = (*PLACED, "known_bits", "code", *DECODER)


@dataclass(frozen=True)
class Fetched:
    """What some slots hold, on the host."""

    images: np.ndarray  # [n, N] uint8
    bits: np.ndarray  # [n] float64: the cost of the bytes before the position
    # [n] float64: of its known bytes, by all particles, and since a resampling by this one
    evidence_bits: np.ndarray
    effective_particles: np.ndarray  # [n] float64: the smallest number so far
    # [n, 3] int64: of images with a code, the bytes of it that are read, and value and range
    decoders: np.ndarray

    def evidence(self, row: int) -> tuple[float, float]:
        """Return the evidence of a completion in bits, and the effective number of its particles."""
        return float(self.evidence_bits[row]), float(self.effective_particles[row])

    @classmethod
    def nothing(cls) -> "Fetched":
        numbers = np.empty(0)
        return cls(
            images=np.empty((0, 0), np.uint8),
            bits=numbers,
            evidence_bits=numbers,
            effective_particles=numbers,
            decoders=np.empty((0, 3), np.int64),
        )


@dataclass
class SlotPool:
    """Memory of all images in flight, allocated once. A slot is free, or its image done, where its
    position is N."""

    state: State
    images: torch.Tensor  # [S, N] uint8
    known: torch.Tensor  # [S, N] bool: bytes that are given, not painted
    bits: torch.Tensor  # [S] float64: the cost of the bytes before the position
    seed: torch.Tensor  # [S] int64
    # [S] int64: of the image in its request, and of its particle in the high 32 bits
    index: torch.Tensor
    temperature: torch.Tensor  # [S] float32
    label: torch.Tensor  # [S] int64: 0 for no class, k + 1 for class k
    # Of a guided image, which has two slots, one with its label and
    # one with 0, whose logits are mixed:
    partner: torch.Tensor  # [S] int64: the number of the other slot minus this one's; 0 for none
    guidance: torch.Tensor  # [S] float32: as in GenerateRequest
    # Of an image with particles, each in a slot of its own (particles.py):
    # [S] float64: the cost of this slot's known bytes since the last resampling
    known_bits: torch.Tensor
    # [S] float64: of the known bytes before it, the prefix's included, by all particles
    evidence_bits: torch.Tensor
    # [S] float64: the smallest effective number of particles so far
    effective_particles: torch.Tensor
    # Of an image that is painted from a code (kernels/codec/coder.py):
    code: torch.Tensor  # [S, W] uint8: the next bytes of it, 0 behind its end; no image takes more
    code_at: torch.Tensor  # [S] int64: how many of them are read
    code_value: torch.Tensor  # [S] int64
    code_range: torch.Tensor  # [S] int64; 0 where the image has no code

    @classmethod
    def empty(
        cls,
        config: ModelConfig,
        count: int,
        device: torch.device | str = "cpu",
        state_dtype: torch.dtype = torch.float32,
        deferred: int = 0,
    ) -> "SlotPool":
        """Return `count` free slots whose s is stored in `state_dtype`, with room for so many
        deferred steps."""
        state = State.zeros(config, count, device, state_dtype, deferred)
        state.position.fill_(config.bytes)

        def zeros(dtype: torch.dtype, *shape: int) -> torch.Tensor:
            return torch.zeros(count, *shape, dtype=dtype, device=device)

        return cls(
            state=state,
            images=zeros(torch.uint8, config.bytes),
            known=zeros(torch.bool, config.bytes),
            bits=zeros(torch.float64),
            seed=zeros(torch.int64),
            index=zeros(torch.int64),
            temperature=torch.ones(count, device=device),
            label=zeros(torch.int64),
            partner=zeros(torch.int64),
            guidance=torch.ones(count, device=device),
            known_bits=zeros(torch.float64),
            evidence_bits=zeros(torch.float64),
            effective_particles=zeros(torch.float64),
            code=zeros(torch.uint8, longest_code(config.bytes)),
            code_at=zeros(torch.int64),
            code_value=zeros(torch.int64),
            code_range=zeros(torch.int64),
        )

    def part(self, first: int, stop: int) -> "SlotPool":
        """Return a view of slots first..stop-1."""
        return SlotPool(
            self.state.part(first, stop),
            **{name: getattr(self, name)[first:stop] for name in ARRAYS},
        )

    @property
    def on_host(self) -> bool:
        """Whether the pool is in the processor's memory, where numpy works on it: torch would wake
        threads of its own, which spin for milliseconds while the step's threads compute."""
        return self.images.device.type == "cpu"

    def place(self, arrivals: Arrivals) -> None:
        """Start images in their slots, IN PLACE, whatever these held; on a GPU without waiting for
        it."""
        if self.on_host:
            self._place_by_numpy(arrivals)
        else:
            self._place_by_torch(arrivals.to(self.images.device))

    def put_codes(self, slots: np.ndarray, decoders: Sequence[Decoder]) -> None:
        """Let images that have been placed in `slots` [n] int64 be painted from codes, IN PLACE."""
        width = self.code.shape[1]
        code = np.zeros((len(slots), width), np.uint8)
        for row, decoder in enumerate(decoders):
            left = decoder.code[decoder.at : decoder.at + width]
            code[row, : len(left)] = np.frombuffer(left, np.uint8)
        arrays: dict[str, np.ndarray] = {
            "code": code,
            "code_at": np.zeros(len(slots), np.int64),
            "code_value": np.array([decoder.value for decoder in decoders], np.int64),
            "code_range": np.array([decoder.range for decoder in decoders], np.int64),
        }
        for name, values in arrays.items():
            array = getattr(self, name)
            if self.on_host:
                array.numpy()[slots] = values
            else:
                array.index_copy_(0, self.rows(slots), self.rows(values))

    def fetch(self, slots: np.ndarray) -> Pending[Fetched]:
        """Return copies of what `slots` [n] int64 hold now; on a GPU without waiting for it."""
        if self.on_host:
            fetched = Fetched(
                images=self.images.numpy()[slots],
                bits=self.bits.numpy()[slots],
                evidence_bits=self.evidence_bits.numpy()[slots] + self.known_bits.numpy()[slots],
                effective_particles=self.effective_particles.numpy()[slots],
                decoders=np.stack([getattr(self, name).numpy()[slots] for name in DECODER], axis=1),
            )
            return Pending.ended(fetched)
        copied = to_host(self._gathered(self.rows(slots)))
        return Pending(lambda: _taken_apart(copied.wait(), len(slots)))

    def positions(self, slots: np.ndarray) -> Pending[np.ndarray]:
        """Return the positions of `slots` [n] int64; on a GPU without waiting for it."""
        if self.on_host:
            return Pending.ended(self.state.position.numpy()[slots])
        copied = to_host(self.state.position[self.rows(slots)])
        return Pending(lambda: copied.wait().numpy())

    def snapshot(
        self, slot: int, layer: int, head: int, step_bytes: int = 1
    ) -> Pending[tuple[np.ndarray, np.ndarray]]:
        """Return copies of s [C, M] and z [C] float32 of one layer and head; on a GPU without
        waiting for it."""
        deferred = self.state.deferred[layer, slot]
        held = (self.state.position[slot] // step_bytes) % (len(deferred) + 1)
        s, z = with_deferred(self.state.s[layer, slot], self.state.z[layer, slot], deferred, held)
        s = s[head]
        z = z[head]
        if self.on_host:
            return Pending.ended((s.numpy().copy(), z.numpy().copy()))
        copied = to_host(torch.cat((s, z.unsqueeze(1)), dim=1))

        def on_host() -> tuple[np.ndarray, np.ndarray]:
            both = copied.wait().numpy()
            return both[:, :-1], both[:, -1]

        return Pending(on_host)

    def in_flight(self) -> np.ndarray:
        """Return the slots [n] int64 whose images are not done, ascending; wait for the device."""
        unfinished = self.state.position < self.images.shape[1]
        slots: np.ndarray = unfinished.nonzero().flatten().cpu().numpy()
        return slots

    def empty_slots(self, slots: np.ndarray) -> None:
        """Free `slots` [n] int64, IN PLACE, whatever they hold."""
        self.state.position[self.rows(slots)] = self.images.shape[1]

    def advance_only(self, slots: np.ndarray, advance: Callable[["SlotPool"], None]) -> None:
        """Call `advance` with this pool, IN PLACE, in which all slots but `slots` [n] int64 count
        as done."""
        position = self.state.position
        rows = self.rows(slots)
        positions = torch.full_like(position, self.images.shape[1])
        positions[rows] = position[rows]
        advance(replace(self, state=replace(self.state, position=positions)))
        position[rows] = positions[rows]

    def rows(self, slots: np.ndarray) -> torch.Tensor:
        """Return numbers of slots, int64, where the pool is; on a GPU without waiting for it."""
        return to_device(slots, self.images.device)

    def _place_by_numpy(self, arrivals: Arrivals) -> None:
        slots = arrivals.slots.numpy()
        first = arrivals.without_prefix
        for name in PLACED:
            getattr(self, name).numpy()[slots] = getattr(arrivals, name).numpy()
        self.known_bits.numpy()[slots] = 0
        self.code_range.numpy()[slots] = 0
        self.state.position.numpy()[slots] = arrivals.position.numpy()
        for name in NUMBERS:
            array = as_numpy(getattr(self.state, name))
            array[:, slots[:first]] = 0
            for row, slot in zip(arrivals.prefix, slots[first:], strict=True):
                array[:, slot] = as_numpy(getattr(arrivals.prefixes[row], name)[:, 0])

    def _place_by_torch(self, arrivals: Arrivals) -> None:
        slots = arrivals.slots
        first = arrivals.without_prefix
        for name in PLACED:
            array = getattr(self, name)
            array.index_copy_(0, slots, getattr(arrivals, name).to(array.dtype))
        self.known_bits.index_fill_(0, slots, 0)
        self.code_range.index_fill_(0, slots, 0)
        self.state.position.index_copy_(0, slots, arrivals.position)
        which = self.rows(np.array(arrivals.prefix, np.int64))
        for name in NUMBERS:
            array = getattr(self.state, name)
            array.index_fill_(1, slots[:first], 0)
            if arrivals.prefixes:
                prefixes = torch.cat([getattr(state, name) for state in arrivals.prefixes], dim=1)
                array.index_copy_(1, slots[first:], prefixes.index_select(1, which))

    def _gathered(self, rows: torch.Tensor) -> torch.Tensor:
        """Return numbers and images of some slots as one block of bytes, for one copy."""
        evidence = self.evidence_bits[rows] + self.known_bits[rows]
        numbers = torch.cat((self.bits[rows], evidence, self.effective_particles[rows]))
        decoders = torch.stack([getattr(self, name)[rows] for name in DECODER], dim=1)
        parts = (numbers.view(torch.uint8), decoders.view(torch.uint8), self.images[rows])
        return torch.cat([part.flatten() for part in parts])


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return a view of a tensor on the host; bfloat16, which numpy does not know, as int16."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy()


def _taken_apart(block: torch.Tensor, count: int) -> Fetched:
    """Return what SlotPool._gathered of `count` slots holds, on the host."""
    three = 3 * 8 * count  # bytes of three numbers of each slot
    numbers, decoders, images = block.split((three, three, len(block) - 2 * three))
    bits, evidence_bits, effective = numbers.view(torch.float64).view(3, count).numpy()
    read = decoders.view(torch.int64).view(count, 3).numpy()
    return Fetched(images.view(count, -1).numpy(), bits, evidence_bits, effective, read)
