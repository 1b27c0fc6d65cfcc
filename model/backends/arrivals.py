"""The images that take slots in one tick, as one block of memory, so that a device gets them in one copy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from scanline.model.state import State

INTEGERS = 6  # slot, seed, index, position, label, partner
NUMBERS = INTEGERS + 5  # bits, temperature, evidence bits, effective particles, guidance


@dataclass(frozen=True)
class Arrivals:
    """n images that start in n different slots, those without a prefix first.

    The arrays are views of the block, on the host or on the device; prefixes are on the device already.
    """

    block: torch.Tensor  # uint8
    count: int  # n
    prefixes: tuple[State, ...] = ()  # each of one image, on the device
    prefix: tuple[int, ...] = ()  # from which of them each of the last images starts

    @classmethod
    def empty(
        cls,
        count: int,
        length: int,
        prefixes: Sequence[State] = (),
        prefix: Sequence[int] = (),
        *,
        pinned: bool = False,
    ) -> "Arrivals":
        """Return images of `length` unknown bytes, every number 0; `pinned`: to be copied without waiting."""
        block = torch.zeros(count * (8 * NUMBERS + 2 * length), dtype=torch.uint8, pin_memory=pinned)
        return cls(block, count, tuple(prefixes), tuple(prefix))

    def to(self, device: torch.device) -> "Arrivals":
        """Return the same on a device: one copy, which the caller does not wait for where the block is pinned."""
        return replace(self, block=self.block.to(device, non_blocking=True))

    @property
    def without_prefix(self) -> int:
        """How many images start from nothing: the first ones."""
        return self.count - len(self.prefix)

    @property
    def slots(self) -> torch.Tensor:
        """[n] int64."""
        return self._integers[0]

    @property
    def seed(self) -> torch.Tensor:
        """[n] int64."""
        return self._integers[1]

    @property
    def index(self) -> torch.Tensor:
        """[n] int64: of the image in its request, and its particle in the high 32 bits."""
        return self._integers[2]

    @property
    def position(self) -> torch.Tensor:
        """[n] int64: the byte that comes next."""
        return self._integers[3]

    @property
    def label(self) -> torch.Tensor:
        """[n] int64: 0 for no class, k + 1 for class k."""
        return self._integers[4]

    @property
    def partner(self) -> torch.Tensor:
        """[n] int64: of a guided image, the number of its other slot minus this one's; 0 for none."""
        return self._integers[5]

    @property
    def bits(self) -> torch.Tensor:
        """[n] float64: the cost of the bytes before the position."""
        return self._floats[0]

    @property
    def temperature(self) -> torch.Tensor:
        """[n] float64, which becomes float32 in the pool."""
        return self._floats[1]

    @property
    def evidence_bits(self) -> torch.Tensor:
        """[n] float64: what the known bytes before the position have cost."""
        return self._floats[2]

    @property
    def effective_particles(self) -> torch.Tensor:
        """[n] float64: how many particles the image has."""
        return self._floats[3]

    @property
    def guidance(self) -> torch.Tensor:
        """[n] float64, which becomes float32 in the pool."""
        return self._floats[4]

    @property
    def images(self) -> torch.Tensor:
        """[n, N] uint8."""
        return self._bytes[0]

    @property
    def known(self) -> torch.Tensor:
        """[n, N] bool: bytes that are given, not painted."""
        return self._bytes[1].view(torch.bool)

    @property
    def _integers(self) -> torch.Tensor:
        return self.block[: 8 * INTEGERS * self.count].view(torch.int64).view(INTEGERS, self.count)

    @property
    def _floats(self) -> torch.Tensor:
        part = self.block[8 * INTEGERS * self.count : 8 * NUMBERS * self.count]
        return part.view(torch.float64).view(NUMBERS - INTEGERS, self.count)

    @property
    def _bytes(self) -> torch.Tensor:
        return self.block[8 * NUMBERS * self.count :].view(2, self.count, -1)
