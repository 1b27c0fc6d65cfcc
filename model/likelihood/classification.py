"""Classification: the bits of an image under each class of a model, and the posterior that follows from them.

A class-conditional model is a generative classifier: by Bayes, with every class equally likely before, a class's
probability given the image is in proportion to 2^-bits. A model that was trained on mirrored images too reads an image
both ways, and its classes are compared by the mean of both: what speaks for a class by chance in one seldom does in the
other. The arithmetic is numpy's, for processes without torch.
"""

from dataclasses import dataclass

import numpy as np

from scanline.model.config import ModelConfig
from scanline.model.inputs import InvalidInput
from scanline.model.likelihood.typicality import TYPICAL


@dataclass(frozen=True)
class Classification:
    """Images under every class."""

    class_names: tuple[str, ...]  # K names
    bits: np.ndarray  # [n, K] float64, of each whole image under each class
    compared_bits: np.ndarray  # [n, K] float64: those, or their mean with those of the mirror image
    noisy: np.ndarray  # [n] bool, whether each image had noise of codecs or scanners
    tail_probabilities: np.ndarray | None = None  # [n] float64: see `Typicality`; None where it was not measured

    @property
    def posterior(self) -> np.ndarray:
        """The probability of each class given each image, [n, K] float64."""
        return posterior(self.compared_bits)

    @property
    def best(self) -> tuple[str, ...]:
        """The name of each image's most probable class; of equals, the first."""
        return tuple(self.class_names[label] for label in self.compared_bits.argmin(axis=-1))

    @property
    def typical(self) -> np.ndarray | None:
        """Whether each image is like the model's test images, [n] bool; of others the posterior means little."""
        return None if self.tail_probabilities is None else self.tail_probabilities >= TYPICAL


def posterior(bits: np.ndarray) -> np.ndarray:
    """Return the probabilities [..., K] of K classes, equally likely before, given what an image costs under each,
    bits [..., K] float64. An image that no class allows says nothing: its probabilities are equal."""
    least = bits.min(axis=-1, keepdims=True)
    weights = np.exp2(np.where(np.isinf(least), 0.0, least) - bits)
    weights = np.where(np.isinf(least), 1.0, weights)
    return weights / weights.sum(axis=-1, keepdims=True)


def mixture_bits(bits: np.ndarray) -> np.ndarray:
    """Return the bits [...] of the mean of the probabilities 2^-bits [..., K]: what an image costs
    whose class is drawn, every class equally likely."""
    least = bits.min(axis=-1)
    above = bits - np.where(np.isinf(least), 0.0, least)[..., None]
    with np.errstate(divide="ignore"):
        return np.where(np.isinf(least), least, least - np.log2(np.exp2(-above).mean(axis=-1)))


def views(config: ModelConfig, images: np.ndarray) -> np.ndarray:
    """Return images [n, N] uint8 as a model reads them to classify, [n, V, N]: as they are and, where it was trained on
    mirrored ones too, mirrored."""
    if not config.mirrored:
        return images[:, None]
    pixels = images.reshape(-1, config.height, config.width, config.channels)
    return np.stack((images, pixels[:, :, ::-1].reshape(images.shape)), axis=1)


def readings(config: ModelConfig) -> int:
    """Return how often a classification reads an image: once for each class, or twice, mirrored too."""
    return (1 + config.mirrored) * len(config.classes)


def of_readings(config: ModelConfig, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bits of n images under each class and those that classes are compared by, both [n, K], from the bits
    of all readings, [n * V * K]: of each image, of each view, of each class."""
    of_views = totals.reshape(-1, 1 + config.mirrored, len(config.classes))
    return of_views[:, 0], of_views.mean(axis=1)


def check_classes(config: ModelConfig) -> None:
    """Raise InvalidInput where a model cannot classify."""
    if not config.classes:
        raise InvalidInput("This model knows no classes and cannot classify.", "model")
