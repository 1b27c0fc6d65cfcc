"""One image as a generator paints it. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scanline.kernels.codec.coder import Decoder
from scanline.model.base.sampling_options import DrawingParams

if TYPE_CHECKING:
    from scanline.model.backends.arrivals import Arrivals


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
    def number(self) -> int:
        """The number of its random numbers among those of the seed."""
        return self.index + (self.particle << 32)

    @property
    def drawing(self) -> dict[str, Any]:
        """What decides its bytes besides what the network predicts."""
        return {
            "seed": self.seed,
            "index": self.number,
            "temperature": self.temperature,
            "guidance": self.guidance,
        }

    @property
    def prefix(self) -> int:
        """How many bytes are known before the first unknown one."""
        if self.mask is None:
            return 0
        return len(self.mask) if self.mask.all() else int(np.argmin(self.mask))


def write_numbers(arrivals: "Arrivals", specs: Sequence[ImageSpec]) -> None:
    """Write what each image is drawn with, but for its guidance."""
    arrivals.seed.numpy()[:] = [spec.seed for spec in specs]
    arrivals.index.numpy()[:] = [spec.number for spec in specs]
    arrivals.label.numpy()[:] = [spec.label for spec in specs]
    arrivals.temperature.numpy()[:] = [spec.temperature for spec in specs]
    arrivals.effective_particles.numpy()[:] = [spec.particles for spec in specs]
