"""What the shipped model paints for a seed, by the generator itself."""

from functools import cache

import numpy as np

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.offline import paint


@cache
def offline(n: int, seed: int) -> np.ndarray:
    """[n, 28, 28] uint8."""
    return paint(load_model(zoo.find("mnist-small")), n, seed=seed, temperature=1.0).images.reshape(n, 28, 28)
