"""What makes drawings, strokes on an even black or white ground, of pictures that people have of them.

A picture shows its own noise, of codecs and scanners: the largest difference from the ground where no stroke is near.
What differs no more becomes ground, and what is about as close to the value of strokes becomes that value; a picture
without noise stays as it is. What noise remains decides no class, since a noisy picture's bytes are classified to
within a tolerance. A whole picture is first taken from its paper, and then stands as the model's drawings do (see
framing.py); of one that is partly known the pixels keep their places. Only models whose test images have noise in few
cases have a `Cleaning`. The arithmetic is numpy's.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.images.framing import INK, Frame, from_paper, is_drawing, strong

Clean = Literal["auto", "off"]
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
    frame: Frame | None = None  # of grey drawings that all stand alike

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
        if config.channels > 1:
            return cleaning
        return replace(cleaning, frame=Frame.measure(cleaning.drawings(images, config)))

    @classmethod
    def from_dict(cls, data: Any) -> "Cleaning":
        """Return what `to_dict` made; ValueError where it is something else."""
        values = dict(data) if isinstance(data, dict) else {}
        frame = values.pop("frame", None)
        is_right = _has_numbers(values, ("ground", "stroke"), (int,))
        if frame is not None:
            is_right &= _has_numbers(frame, ("size", "row", "column"), (int, float))
            is_right = is_right and frame["size"] >= 1
        if not is_right:
            raise ValueError(
                "clean must hold ground, stroke and frame, as scanline evaluate --save writes them"
            )
        return cls(**values, frame=None if frame is None else Frame(**frame))

    def to_dict(self) -> dict[str, Any]:
        """Return what evaluation.json holds under "clean"."""
        return asdict(self)

    def noise(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return the noise [n] int of images [n, N] uint8, 0 to INK; 0 of a picture too faint
        to have strokes, on another ground, or with more strokes than ground, as grey paper or
        white paper in a dark frame would be."""
        away = self._from_ground(images, config)
        is_opposite = _edge(away) > 127
        # The largest difference where neither a pixel nor one beside it is of a stroke.
        ink = (away > INK).any(axis=3)  # [n, H, W]
        bordered = np.pad(ink, ((0, 0), (1, 1), (1, 1)))
        around = sliding_window_view(bordered, (3, 3), axis=(1, 2))
        near_ink = np.asarray(around.any(axis=(3, 4)))
        away[near_ink] = 0
        noise = away.max(axis=(1, 2, 3))

        strokes = ink.sum(axis=(1, 2))
        is_drawn = (strokes > 0) & (2 * strokes <= config.height * config.width)
        # Most of the edge of a picture on another ground is nearer to the other end of the scale;
        # elsewhere a bold drawing has more strokes than ground.
        is_drawn &= is_opposite.mean(axis=(1, 2)) <= 0.5
        return np.where(is_drawn, noise, 0)

    def on_ground(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return grey images [n, N] uint8 without the paper of those that are not on the ground:
        dark on light where a model's are light on dark, or vice versa, or on grey."""
        drawings = self.drawings(images, config)
        on_paper = np.median(_edge(drawings), axis=1) > INK
        for index in np.flatnonzero(on_paper):
            ink = from_paper(drawings[index])
            if is_drawing(ink):
                drawings[index] = ink
        return self.on_its_ground(drawings)

    def framed(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return grey images [n, N] uint8 as strong as the model's, and as they stand."""
        drawings = self.drawings(images, config)
        for index, ink in enumerate(drawings):
            if is_drawing(ink):
                ink = strong(ink, self.stroke_value)
                if self.frame is not None:
                    ink = self.frame.place(ink, config.height, config.width)
                drawings[index] = ink
        return self.on_its_ground(drawings)

    def photo(self, picture: Image.Image, config: ModelConfig) -> np.ndarray | None:
        """Return the bytes [N] uint8 of the drawing on a grey picture of any size; None where
        nothing is drawn."""
        frame = self.frame or Frame.in_middle(config.height, config.width)
        drawing = frame.photo(picture, self.stroke_value, (config.width, config.height))
        return None if drawing is None else self.on_its_ground(drawing[None])[0]

    def clean(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return images [n, N] uint8 without their noise."""
        noise = self.noise(images, config).reshape(-1, 1, 1, 1)
        away = self._from_ground(images, config)
        away = np.where(away <= noise, 0, away)
        # Strokes become even.
        stroke = self.stroke_value
        is_stroke = away >= stroke - noise
        away = np.where((noise > MIN_NOISE) & is_stroke, stroke, away)
        return self.on_its_ground(away)

    @property
    def stroke_value(self) -> int:
        """How far the value of strokes is from the ground."""
        return abs(self.stroke - self.ground)

    def drawings(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return grey images [n, N] as ink on 0, [n, H, W] uint8."""
        return self._from_ground(images, config)[..., 0].astype(np.uint8)

    def on_its_ground(self, away: np.ndarray) -> np.ndarray:
        """Return the images [n, N] uint8 whose bytes are `away` [n, ...] from the ground."""
        return np.abs(away.astype(np.int16) - self.ground).astype(np.uint8).reshape(len(away), -1)

    def _from_ground(self, images: np.ndarray, config: ModelConfig) -> np.ndarray:
        """Return how far each byte is from the ground, [n, H, W, channels] int16."""
        pixels = images.reshape(-1, config.height, config.width, config.channels)
        return np.abs(pixels.astype(np.int16) - self.ground)


def _has_numbers(values: Any, names: tuple[str, ...], types: tuple[type, ...]) -> bool:
    """Return whether something has numbers from 0 to 255 of these names, and no others."""
    if not isinstance(values, dict) or set(values) != set(names):
        return False
    return all(type(value) in types and 0 <= value <= 255 for value in values.values())


def _edge(pixels: np.ndarray) -> np.ndarray:
    """Return the pixels [n, edge, ...] at the edge of images [n, H, W, ...]."""
    edge = np.ones(pixels.shape[1:3], np.bool_)
    edge[1:-1, 1:-1] = False
    return pixels[:, edge]


@dataclass(frozen=True)
class Cleaned:
    """Images as a model reads them."""

    images: np.ndarray  # [n, N] uint8
    noisy: np.ndarray  # [n] bool, whether each had noise
    # [n] int64, to within which each image's bytes are classified: see Backend.prefill
    tolerances: np.ndarray


def read(
    images: np.ndarray,  # [n, N] uint8
    config: ModelConfig,
    cleaning: Cleaning | None,
    clean: Clean,
    is_whole: bool = True,
) -> Cleaned:
    """Return images as a request with this `clean` has them read; InvalidInput for
    another `clean`. Pixels of an image that is not whole keep their places."""
    if not isinstance(clean, str) or clean not in get_args(Clean):
        raise InvalidInput(f"clean must be auto or off, not {clean!r}.", "clean")
    exact = np.zeros(len(images), np.int64)
    if cleaning is None:
        return Cleaned(images, exact > 0, exact)
    is_cleaned = clean == "auto"
    is_framed = is_cleaned and is_whole and config.channels == 1
    if is_framed:
        images = cleaning.on_ground(images, config)
    noise = cleaning.noise(images, config)
    if not is_cleaned:
        return Cleaned(images, noise > 0, exact)
    tolerances = exact
    # Noise remains where there are strokes. A range of bytes has a probability where there is a
    # table of all.
    if config.predicts == "categorical":
        ranges = np.maximum(TOLERANCE * noise, MIN_TOLERANCE).astype(np.int64)
        tolerances = np.where(noise > 0, ranges, 0)
    images = cleaning.clean(images, config)
    if is_framed:
        images = cleaning.framed(images, config)
    return Cleaned(images, noise > 0, tolerances)
