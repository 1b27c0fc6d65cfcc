"""The images that a server must return, painted offline from the same model and seeds: byte for byte, at any load."""

import numpy as np

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.offline import paint

KEPT_ROWS = 14  # of a completion


class Expected:
    """`most` images of each of the seeds 0 .. seeds-1; optionally completions and likelihoods of their first images."""

    def __init__(self, model: str, precision: str, seeds: int, most: int, completions: bool = False) -> None:
        self.model, self.precision = load_model(zoo.find(model)), precision
        self.config = self.model.config
        self.images = {seed: paint(self.model, most, seed=seed, precision=precision).images for seed in range(seeds)}
        self.completed: dict[int, np.ndarray] = {}
        self.bits_per_dim: dict[int, float] = {}
        if not completions:
            return
        mask = np.arange(self.config.bytes) < KEPT_ROWS * self.config.width * self.config.channels
        for seed in range(seeds):
            painted = paint(self.model, most, seed=seed, known=self.known(seed), mask=mask, precision=precision)
            self.completed[seed] = painted.images
        generator = Generator(self.model, 1, precision=precision)
        self.bits_per_dim = {seed: float(generator.score(self.known(seed)[None]).mean()) for seed in range(seeds)}
        generator.close()

    def known(self, seed: int) -> np.ndarray:
        """The image [N] uint8 that the completions of a seed start from."""
        image: np.ndarray = self.images[seed][0]
        return image
