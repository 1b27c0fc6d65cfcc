"""The slots of a generator: what every image in flight is, in arrays of one row a slot. Owns no arithmetic."""

from dataclasses import dataclass

import torch

from scanline.model.config import ModelConfig
from scanline.model.state import State


@dataclass
class SlotPool:
    """Memory of all images in flight, allocated once. A slot is free, or its image done, where its position is N."""

    state: State
    images: torch.Tensor  # [S, N] uint8
    known: torch.Tensor  # [S, N] bool: bytes that are given, not painted
    bits: torch.Tensor  # [S] float64: the cost of the bytes before the position
    seed: torch.Tensor  # [S] int64
    index: torch.Tensor  # [S] int64: of the image in its request
    temperature: torch.Tensor  # [S] float32

    @classmethod
    def empty(
        cls,
        config: ModelConfig,
        count: int,
        device: torch.device | str = "cpu",
        state_dtype: torch.dtype = torch.float32,
    ) -> "SlotPool":
        """Returns `count` free slots whose s is stored in `state_dtype`."""
        state = State.zeros(config, count, device, state_dtype)
        state.position.fill_(config.bytes)
        return cls(
            state=state,
            images=torch.zeros(count, config.bytes, dtype=torch.uint8, device=device),
            known=torch.zeros(count, config.bytes, dtype=torch.bool, device=device),
            bits=torch.zeros(count, dtype=torch.float64, device=device),
            seed=torch.zeros(count, dtype=torch.int64, device=device),
            index=torch.zeros(count, dtype=torch.int64, device=device),
            temperature=torch.ones(count, device=device),
        )

    def part(self, first: int, stop: int) -> "SlotPool":
        """Returns a view of slots first..stop-1."""
        arrays = (self.images, self.known, self.bits, self.seed, self.index, self.temperature)
        return SlotPool(self.state.part(first, stop), *(tensor[first:stop] for tensor in arrays))
