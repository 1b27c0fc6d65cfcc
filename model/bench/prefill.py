"""How fast known bytes are read: the front of one image to complete, and whole images for likelihoods."""

from dataclasses import dataclass

import numpy as np

from scanline.model.bench.correctness import SEED, Reference
from scanline.model.bench.machine import durations
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec

IMAGES = {"cpu": 16, "cuda": 256}  # scored in one call


@dataclass(frozen=True)
class Reading:
    """What one call reads, and what it takes."""

    images: int
    bytes_of_each: int
    seconds_median: float
    calls: int

    @classmethod
    def of(cls, images: int, bytes_of_each: int, times: list[float]) -> "Reading":
        return cls(images, bytes_of_each, float(np.median(times)), len(times))

    @property
    def bytes_per_second(self) -> float:
        return self.images * self.bytes_of_each / self.seconds_median


def reading(
    model: Transformer, seconds: float, reference: Reference, precision: str = DEFAULT
) -> tuple[Reading, Reading]:
    """Prefill of half an image, alone; scoring of several images."""
    config, device = model.config, model.device.type
    generator = Generator(model, 1, precision=precision)
    front = max(config.bytes // 2, config.first + 1)
    canvas = ImageSpec(SEED, 0, known=reference.images[0], mask=np.arange(config.bytes) < front)
    images = np.resize(np.stack(list(reference.images.values())), (IMAGES[device], config.bytes))
    try:
        prefilled = durations(lambda: generator.prefill(canvas), seconds, device)
        scored = durations(lambda: generator.score(images), seconds, device)
    finally:
        generator.close()
    return (
        Reading.of(1, front - config.first, prefilled),
        Reading.of(len(images), config.bytes - config.first, scored),
    )
