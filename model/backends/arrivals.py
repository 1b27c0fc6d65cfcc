"""The images that take slots in one tick, as one block of memory, so that a device gets them in one
copy."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from scanline.model.base.state import State

INTEGERS = 6  # slots to partner
NUMBERS = INTEGERS + 5  # bits to guidance


@dataclass(frozen=True)
class Arrivals:
    """n images that start in n different slots, those without a prefix first.

    The arrays are views of the block, on the host or on the device;
    prefixes are on the device already.
    """

    block: torch.Tensor  # uint8
    prefixes: tuple[State, ...]  # each of one image, on the device
    prefix: tuple[int, ...]  # from which of them each of the last images starts
    images: torch.Tensor  # [n, N] uint8
    known: torch.Tensor  # [n, N] bool: bytes that are given, not painted
    slots: torch.Tensor  # [n] int64
    seed: torch.Tensor  # [n] int64
    # [n] int64: of the image in its request, and its particle in the high 32 bits
    index: torch.Tensor
    position: torch.Tensor  # [n] int64: the byte that comes next
    label: torch.Tensor  # [n] int64: 0 for no class, k + 1 for class k
    # [n] int64: of a guided image, the number of its other slot minus this one's; 0 for none
    partner: torch.Tensor
    bits: torch.Tensor  # [n] float64: the cost of the bytes before the position
    temperature: torch.Tensor  # [n] float64, which becomes float32 in the pool
    evidence_bits: torch.Tensor  # [n] float64: what the known bytes before the position have cost
    effective_particles: torch.Tensor  # [n] float64: how many particles the image has
    guidance: torch.Tensor  # [n] float64, which becomes float32 in the pool

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
        """Return images of `length` unknown bytes, every number 0; `pinned`: to be copied without
        waiting."""
        block = torch.zeros(
            count * (8 * NUMBERS + 2 * length), dtype=torch.uint8, pin_memory=pinned
        )
        return cls._of(block, count, length, tuple(prefixes), tuple(prefix))

    @classmethod
    def _of(
        cls,
        block: torch.Tensor,
        count: int,
        length: int,
        prefixes: tuple[State, ...],
        prefix: tuple[int, ...],
    ) -> "Arrivals":
        # Numbers of 8 bytes come first, so that each is aligned.
        integers, floats, arrays = block.split(
            (8 * INTEGERS * count, 8 * (NUMBERS - INTEGERS) * count, 2 * count * length)
        )
        images, known = arrays.view(2, count, length)
        numbers = (
            *integers.view(torch.int64).view(-1, count),
            *floats.view(torch.float64).view(-1, count),
        )
        return cls(block, prefixes, prefix, images, known.view(torch.bool), *numbers)

    def to(self, device: torch.device) -> "Arrivals":
        """Return the same on a device: one copy, which the caller does not wait for where the block
        is pinned."""
        count, length = self.images.shape
        return Arrivals._of(
            self.block.to(device, non_blocking=True), count, length, self.prefixes, self.prefix
        )

    @property
    def without_prefix(self) -> int:
        """How many images start without a prefix: the first ones."""
        return len(self.slots) - len(self.prefix)
