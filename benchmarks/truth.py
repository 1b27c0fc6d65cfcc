"""The right answers, painted by the offline generator from the same model and seeds: what a server must say, byte for
byte, however busy it is.
"""

import numpy as np

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.offline import paint

KEPT_ROWS = 14  # of a completion


class Truth:
    """`most` images of each of `seeds` seeds, and completions of the first of them."""

    def __init__(self, model: str, precision: str, seeds: int, most: int, completions: bool = False) -> None:
        self.model, self.precision, self.most = load_model(zoo.find(model)), precision, most
        self.config = self.model.config
        self.images = {seed: paint(self.model, most, seed=seed, precision=precision).images for seed in range(seeds)}
        self.completed: dict[int, np.ndarray] = {}
        self.bits: dict[int, float] = {}
        if completions:
            for seed in range(seeds):
                self._complete(seed)
            generator = Generator(self.model, 1, precision=precision)
            self.bits = {seed: float(generator.score(self.known(seed)[None]).mean()) for seed in range(seeds)}
            generator.close()

    def known(self, seed: int) -> np.ndarray:
        """The image [N] uint8 that a seed's completions start from."""
        image: np.ndarray = self.images[seed][0]
        return image

    def _complete(self, seed: int) -> None:
        mask = np.arange(self.config.bytes) < KEPT_ROWS * self.config.width * self.config.channels
        painted = paint(self.model, self.most, seed=seed, known=self.known(seed), mask=mask, precision=self.precision)
        self.completed[seed] = painted.images
