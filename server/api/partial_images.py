"""Which partial images of a request are due, and what they show: the image so far, mid-grey where nothing is painted.

They are cut out of the job's own images when they are told: nothing is kept for a slow reader but numbers.
"""

from collections.abc import Iterator

import numpy as np

from scanline.model.config import ModelConfig
from scanline.server.api.jobs import Work
from scanline.server.engine.client.job import Job

UNPAINTED = 128


class PartialImages:
    """Up to `wanted` partial images of each image of a job, evenly spaced over the pixels to paint."""

    def __init__(self, job: Job, work: Work, wanted: int, config: ModelConfig) -> None:
        self.job, self.config = job, config
        sources = list(zip(work.known, work.masks, strict=True)) or [(bytes(config.bytes), bytes(config.bytes))]
        self.copies = work.images // len(sources)
        known = [(np.frombuffer(image, np.uint8), np.frombuffer(mask, bool)) for image, mask in sources]
        self.blanks = [np.where(mask, image, np.uint8(UNPAINTED)) for image, mask in known]
        self.cuts = np.repeat([_cuts(mask, wanted, config) for _, mask in known], self.copies, axis=0)
        self.told = np.zeros(work.images, np.int64)  # partial images of each that need no telling any more

    def due(self, index: int) -> Iterator[tuple[int, np.ndarray]]:
        """Number and picture [H, W] or [H, W, 3] of each partial image of an image that can be told now."""
        while self.told[index] < self._reached(index):
            number = int(self.told[index])
            self.told[index] += 1
            cut = self.cuts[index, number]
            picture = self.blanks[index // self.copies].copy()
            picture[:cut] = self.job.images[index, :cut]
            yield number, picture.reshape(self.config.image_shape)

    def merge(self) -> None:
        """The reader is behind: of each image only its newest partial image is told, and none where it is done."""
        done = self.job.painted == self.config.bytes
        self.told = np.maximum(self.told, self._reached(slice(None)) - np.where(done, 0, 1))

    def _reached(self, which: int | slice) -> np.ndarray:
        """How many partial images of an image, or of each, have been painted."""
        return (self.cuts[which] <= self.job.painted[which, None]).sum(-1)


def _cuts(mask: np.ndarray, wanted: int, config: ModelConfig) -> np.ndarray:
    """Bytes [wanted] of an image that its partial images have; beyond its end where there are too few pixels."""
    unknown = np.flatnonzero(~mask[:: config.channels])  # whole pixels: a mask never parts the channels
    counts = np.unique(np.arange(1, wanted + 1) * len(unknown) // (wanted + 1))
    cuts = unknown[counts[counts > 0]] * config.channels
    return np.pad(cuts, (0, wanted - len(cuts)), constant_values=config.bytes + 1)
