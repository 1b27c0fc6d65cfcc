"""A prefill of images that are encoded: the interval of each byte is kept, too."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from scanline.kernels.codec.reference import histogram_starts
from scanline.model.base.config import ModelConfig
from scanline.model.sampling.base.messages import Scored
from scanline.model.sampling.base.prefill_state import PrefillState, Reading


class CodedPrefill(PrefillState):
    def __post_init__(self) -> None:
        super().__post_init__()
        # intervals are those of the steps that paint, however the bytes are divided
        self.in_chunks = True
        intervals = first_intervals(self.model.config, self.batch.images)
        self.batch = replace(self.batch, intervals=intervals)

    def intervals_of(self, row: int) -> np.ndarray:
        """Return start and width uint32 [N, 2] of the bytes of one image."""
        assert self.batch.intervals is not None
        return self.batch.intervals[row].cpu().numpy().view(np.uint32)

    def scored(self, row: int, request: int, index: int) -> Scored:
        """See PrefillState.scored."""
        intervals = self.intervals_of(row).tobytes()
        return replace(super().scored(row, request, index), intervals=intervals)


@dataclass(frozen=True)
class CodedReading(Reading):
    run: ClassVar[type[PrefillState]] = CodedPrefill


def first_intervals(config: ModelConfig, images: torch.Tensor) -> torch.Tensor:
    """Return room [B, N, 2] int32 for the intervals of images [B, N] uint8: those of first bytes
    that no network predicts are there."""
    intervals = torch.zeros(*images.shape, 2, dtype=torch.int32, device=images.device)
    if config.first_byte_histogram is not None:
        bounds = histogram_starts(config.first_byte_histogram)
        starts = torch.tensor(bounds, dtype=torch.int32, device=images.device)
        first = images[:, 0].long()
        intervals[:, 0, 0] = starts[first]
        intervals[:, 0, 1] = starts[first + 1] - starts[first]
    return intervals
