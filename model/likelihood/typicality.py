"""How unusual a picture is for a model: its bits beside those of the model's test images.

Two figures of a picture are compared with their quantiles in evaluation.json: bits per
dimension, and bits per grey, a byte that is neither near black nor near white. A codec's greys
cost far more than a test image's, while the picture as a whole may cost no more than a test
image with many greys. The arithmetic is numpy's.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

TYPICAL = 0.01  # least tail probability of a typical picture
NEAR_END = 4  # of a byte that is no grey
_LOWER = (0.0, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
LEVELS = np.array([*_LOWER, *(1 - level for level in reversed(_LOWER[:-1]))])
MAX_IMAGES = 2**53  # that a float counts
TAILS = 4  # two figures, each too low or too high


@dataclass(frozen=True)
class Typicality:
    """Quantiles of the test images' bits, at LEVELS."""

    images: int
    noisy: float  # the share of test images with noise
    bits_per_dim: tuple[float, ...]
    bits_per_grey: tuple[float, ...]

    @classmethod
    def measure(cls, bits: np.ndarray, images: np.ndarray, noisy: np.ndarray) -> "Typicality":
        """Return the quantiles of the bits [n] float64 of whole test images [n, N] uint8, some of
        them `noisy` [n]."""
        per_dim, per_grey = _figures(bits, images)
        return cls(
            images=len(bits),
            noisy=float(noisy.mean()),
            bits_per_dim=tuple(np.quantile(per_dim, LEVELS).round(4).tolist()),
            bits_per_grey=tuple(np.quantile(per_grey, LEVELS).round(4).tolist()),
        )

    @classmethod
    def from_dict(cls, data: Any) -> "Typicality":
        """Return what `to_dict` made; ValueError where it is something else."""
        try:
            images = data["images"]
            noisy = data["noisy"]
            quantiles = np.array([data["bits_per_dim"], data["bits_per_grey"]])
            is_right = type(images) is int and 0 < images < MAX_IMAGES and 0 <= noisy <= 1
        except (KeyError, TypeError, ValueError):
            is_right = False
        # numbers beyond 64 bits would be an array of objects
        is_right = is_right and quantiles.shape == (2, len(LEVELS)) and quantiles.dtype.kind in "if"
        if not is_right or not np.isfinite(quantiles).all() or not (np.diff(quantiles) >= 0).all():
            raise ValueError(
                "typical must hold images and quantiles, as scanline evaluate --save writes them"
            )
        dims, greys = quantiles.astype(np.float64).tolist()
        return cls(images, float(noisy), tuple(dims), tuple(greys))

    def to_dict(self) -> dict[str, Any]:
        """Return what evaluation.json holds under "typical"."""
        return asdict(self)

    @property
    def range(self) -> tuple[float, float]:
        """The bits per dimension between which 99 % of the test images lie."""
        low, high = np.interp((0.005, 0.995), LEVELS, self.bits_per_dim).tolist()
        return low, high

    def tail_probabilities(
        self, bits: np.ndarray, images: np.ndarray, noisy: np.ndarray
    ) -> np.ndarray:
        """Return how unusual images [n, N] uint8 are that cost `bits` [n] each, `noisy` [n] bool: a
        bound on the probability [n] that a test image lies as far outside in one of its figures,
        each too low or too high (Bonferroni's), or has noise."""
        # The share of test images whose figure is lower.
        per_dim, per_grey = _figures(bits, images)
        ranks = np.stack(
            (
                np.interp(per_dim, self.bits_per_dim, LEVELS),
                np.interp(per_grey, self.bits_per_grey, LEVELS),
            )
        )
        tails = TAILS * np.minimum(ranks, 1 - ranks).min(axis=0)
        least = np.minimum(tails, np.where(noisy, self.noisy, 1.0))
        return np.maximum(least, TAILS / (self.images + 1))


def _figures(bits: np.ndarray, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bits per dimension [n] and bits per grey [n]."""
    is_grey = (images > NEAR_END) & (images < 255 - NEAR_END)
    greys = np.maximum(is_grey.sum(axis=1), 1)
    return bits / images.shape[1], bits / greys
