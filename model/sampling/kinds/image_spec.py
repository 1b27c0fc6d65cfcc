"""One image as a generator paints it. Imports no torch."""

from dataclasses import dataclass

import numpy as np

from scanline.kernels.codec.coder import Decoder
from scanline.model.base.sampling_options import DrawingParams


@dataclass(frozen=True)
class ImageSpec(DrawingParams):
    """One image to paint, or one of its particles; its random numbers are
    those of (seed, index, particle).
    """

    seed: int
    index: int
    known: np.ndarray | None = None  # [N] uint8
    mask: np.ndarray | None = None  # [N] bool, True where a byte is known
    label: int = 0  # 0: no class; k + 1: class k of the model
    particle: int = 0  # from 0
    particles: int = 1  # of the image
    code: Decoder | None = None  # from which its bytes are painted in place of random numbers

    @property
    def prefix(self) -> int:
        """How many bytes are known before the first unknown one."""
        if self.mask is None:
            return 0
        return len(self.mask) if self.mask.all() else int(np.argmin(self.mask))
