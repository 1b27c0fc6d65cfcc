"""A prefill of images that are encoded: the interval of each byte is kept, too."""

from dataclasses import replace

import numpy as np
import torch

from scanline.kernels.codec.reference import histogram_starts
from scanline.model.sampling.base.messages import Scored
from scanline.model.sampling.base.prefill_state import PrefillState


class CodedPrefill(PrefillState):
    in_chunks = True  # intervals are those of the steps that paint

    def __post_init__(self) -> None:
        super().__post_init__()
        images = self.batch.images
        device = images.device
        intervals = torch.zeros(*images.shape, 2, dtype=torch.int32, device=device)
        histogram = self.model.config.first_byte_histogram
        if histogram is not None:  # no network predicts the first bytes
            starts = torch.tensor(histogram_starts(histogram), device=device)
            first = images[:, 0].long()
            start = starts[first]
            intervals[:, 0, 0] = start
            intervals[:, 0, 1] = starts[first + 1] - start
        self.batch = replace(self.batch, intervals=intervals)

    def intervals_of(self, row: int) -> np.ndarray:
        """Return start and width uint32 [N, 2] of the bytes of one image."""
        intervals = self.batch.intervals
        assert intervals is not None
        return intervals[row].cpu().numpy().view(np.uint32)

    def scored(self, row: int, request: int, index: int) -> Scored:
        """See PrefillState.scored."""
        scored = super().scored(row, request, index)
        intervals = self.intervals_of(row).tobytes()
        return replace(scored, intervals=intervals)
