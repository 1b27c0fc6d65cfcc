"""Removal of the noise of codecs and scanners from pictures of drawings:
strokes on an even black or white ground.

A picture shows its own noise: the largest difference from the ground where no stroke is near. A picture on another
ground has none: dark on white where a model knows light on black, grey paper, paper in a dark frame. What differs no
more becomes ground, and what is about as close to the value of strokes becomes that value; a picture without noise
stays as it is. What noise remains decides no class, since a noisy picture's bytes are classified to within a
tolerance. Only models whose test images have noise in few cases have a `Cleaning`. The arithmetic is numpy's.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput

Clean = Literal["auto", "off"]
INK = 32  # a byte that differs more from the ground is of a stroke
NEAR_END = 12  # the values of most strokes differ no more from the end of the scale
# of these: mnist-small needs fewer bits with it than with the median or the end itself
STROKE_QUANTILE = 0.75
TOLERANCE = 1.5  # within which a noisy picture's bytes are classified, of its noise
MIN_TOLERANCE = 16  # mnist-small is best with 8 to 24 where the noise is less
MIN_NOISE = 2  # in which strokes become even; the values of a test image's strokes differ as much
MAX_NOISY = 0.05  # of the test images of a model whose pictures are cleaned


@dataclass(frozen=True)
class Cleaning:
    """What the drawings of a model look like."""

    ground: int  # 0 or 255
    stroke: int  # a value of most strokes, at the other end of the scale

    @classmethod
    def measure(cls, images: np.ndarray, config: ModelConfig) -> "Cleaning | None":
        """Return the cleaning for a model with test images [n, N] uint8; None where too many of
        them have noise."""
        counts = np.bincount(images.reshape(-1), minlength=256)
        ground = int(counts.argmax())
        if ground not in (0, 255) or 2 * counts[ground] < counts.sum():
            return None
        # The quantile of the bytes near the other end of the scale.
        by_distance = counts[::-1] if ground else counts  # from the ground
        first = 255 - NEAR_END
        near_end = by_distance[first:].cumsum()
        quantile = np.searchsorted(near_end, STROKE_QUANTILE * near_end[-1])
        distance = first + int(quantile)
        cleaning = cls(ground, abs(ground - distance))
        noisy = cleaning.noise(images, config) > 0
        if noisy.mean() > MAX_NOISY:
            return None
        return cleaning

    @classmethod
    def from_dict(cls, data: Any) -> "Cleaning":
        """Return what `to_dict` made; ValueError where it is something else."""
        is_right = isinstance(data, dict) and set(data) == {"ground", "stroke"}
        if not is_right or not all(map(_is_byte, data.values())):
            raise ValueError(
                "clean must hold ground and stroke, as scanline evaluate --save writes them"
            )
        return cls(**data)

    def to_dict(self) -> dict[str, Any]:
        """Return what evaluation.json holds under "clean"."""
        return asdict(self)

    def noise(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return the noise [n] int of images [n, N] uint8, 0 to INK; 0 of a picture too faint
        to have strokes, on another ground, or with more strokes than ground, as grey paper or
        white paper in a dark frame would be."""
        away = self._from_ground(images, config)
        # The largest difference where neither a pixel nor one beside it is of a stroke.
        ink = (away > INK).any(axis=3)  # [n, H, W]
        bordered = np.pad(ink, ((0, 0), (1, 1), (1, 1)))
        around = sliding_window_view(bordered, (3, 3), axis=(1, 2))
        near_ink = np.asarray(around.any(axis=(3, 4)))
        away[near_ink] = 0
        noise = away.max(axis=(1, 2, 3))

        strokes = ink.sum(axis=(1, 2))
        is_drawing = (strokes > 0) & (2 * strokes <= config.height * config.width)
        is_drawing &= ~self.inverted(images, config)
        return np.where(is_drawing, noise, 0)

    def inverted(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return whether images [n, N] uint8 are on a ground at the other end of the
        scale, [n] bool: most bytes at the edge are nearer to that. Elsewhere a bold
        drawing has more strokes than ground."""
        edge = np.ones((config.height, config.width), np.bool_)
        edge[1:-1, 1:-1] = False
        away = self._from_ground(images, config)[:, edge]
        is_opposite = away > 127
        return is_opposite.mean(axis=(1, 2)) > 0.5

    def clean(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return images [n, N] uint8 without their noise."""
        noise = self.noise(images, config).reshape(-1, 1, 1, 1)
        away = self._from_ground(images, config)
        away = np.where(away <= noise, 0, away)
        # Strokes become even.
        stroke = abs(self.stroke - self.ground)
        is_stroke = away >= stroke - noise
        away = np.where((noise > MIN_NOISE) & is_stroke, stroke, away)
        cleaned = np.abs(away - self.ground)
        return cleaned.astype(np.uint8).reshape(images.shape)

    def _from_ground(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return how far each byte is from the ground, [n, H, W, channels] int16."""
        pixels = images.reshape(-1, config.height, config.width, config.channels)
        return np.abs(pixels.astype(np.int16) - self.ground)


def _is_byte(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 255


@dataclass(frozen=True)
class Cleaned:
    """Images as a model reads them."""

    images: np.ndarray  # [n, N] uint8
    noisy: np.ndarray  # [n] bool, whether each had noise
    # [n] int64, to within which each image's bytes are classified: see Backend.prefill
    tolerances: np.ndarray
    # [n] bool, whether each is dark on light where the model's are light on dark, or vice versa
    inverted: np.ndarray


def read(
    images: np.ndarray,  # [n, N] uint8
    config: ModelConfig,
    cleaning: Cleaning | None,
    clean: Clean,
) -> Cleaned:
    """Return images as a request with this `clean` has them read; InvalidInput for another
    `clean`."""
    if not isinstance(clean, str) or clean not in get_args(Clean):
        raise InvalidInput(f"clean must be auto or off, not {clean!r}.", "clean")
    exact = np.zeros(len(images), np.int64)
    if cleaning is None:
        return Cleaned(images, exact > 0, exact, exact > 0)
    noise = cleaning.noise(images, config)
    inverted = cleaning.inverted(images, config)
    if clean == "off":
        return Cleaned(images, noise > 0, exact, inverted)
    tolerances = exact
    # Noise remains where there are strokes. A range of bytes has a probability where there is a
    # table of all.
    if config.predicts == "categorical":
        ranges = np.maximum(TOLERANCE * noise, MIN_TOLERANCE).astype(np.int64)
        tolerances = np.where(noise > 0, ranges, 0)
    return Cleaned(cleaning.clean(images, config), noise > 0, tolerances, inverted)
