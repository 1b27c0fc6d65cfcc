"""The seats of a generator: what every image in flight is, in arrays of one row a seat. Owns no arithmetic."""

from dataclasses import dataclass

import torch

from scanline.model.config import ModelConfig
from scanline.model.state import State


@dataclass
class SlotPool:
    """Memory of all images in flight, taken once; a seat is empty or done where its position is N."""

    state: State  # of every row
    images: torch.Tensor  # [B, N] uint8
    known: torch.Tensor  # [B, N] bool: bytes that are given, not painted
    bits: torch.Tensor  # [B] float64: what the bytes before the position cost
    seed: torch.Tensor  # [B] int64
    index: torch.Tensor  # [B] int64, of the image in its request
    temperature: torch.Tensor  # [B] float32

    @classmethod
    def empty(
        cls,
        config: ModelConfig,
        rows: int,
        device: torch.device | str = "cpu",
        state_dtype: torch.dtype = torch.float32,
    ) -> "SlotPool":
        """`rows` seats with nobody in them; states rest in `state_dtype`."""
        state = State.zeros(config, rows, device, state_dtype)
        state.position.fill_(config.bytes)
        return cls(
            state=state,
            images=torch.zeros(rows, config.bytes, dtype=torch.uint8, device=device),
            known=torch.zeros(rows, config.bytes, dtype=torch.bool, device=device),
            bits=torch.zeros(rows, dtype=torch.float64, device=device),
            seed=torch.zeros(rows, dtype=torch.int64, device=device),
            index=torch.zeros(rows, dtype=torch.int64, device=device),
            temperature=torch.ones(rows, device=device),
        )
