"""Classification: which class an image shows, as two readings say it.

By the class head, where a model has one (model/network/class_head.py): from one reading of the
image without a class. By bits: a class-conditional model is a generative classifier. By Bayes, with
every class equally likely before, a class's probability given the image is in proportion to
2^-bits. A model that was trained on mirrored images too reads an image both ways, and its classes
are compared by the mean of both: what speaks for a class by chance in one seldom does in the other.
Bits are surer than they are right, and the more so the more a picture costs; so an evaluation fits
a temperature relative to those bits (Guo et al., On Calibration of Modern Neural Networks, ICML
2017: one temperature for all). The arithmetic is numpy's, for processes without torch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.likelihood.typicality import TYPICAL

TEMPERATURES = np.geomspace(0.0001, 1, 161)  # that are tried


@dataclass(frozen=True)
class Classification:
    """Images as one or both readings see them."""

    class_names: tuple[str, ...]  # K names
    # [n, K] float64, of each whole image under each class; None: not read by bits
    bits: np.ndarray | None
    # [n, K] float64: those, or their mean with those of the mirror image
    compared_bits: np.ndarray | None
    noisy: np.ndarray  # [n] bool, whether each image had noise of codecs or scanners
    # [n] float64: see `Typicality`; None where it was not measured
    tail_probabilities: np.ndarray | None = None
    logits: np.ndarray | None = None  # [n, K] float32, of the class head; None: the model has none
    # of `posterior`, for images without noise, all bytes of which count
    temperature: float | None = None
    is_strange_by_head: bool = False  # the tail probabilities are the class head's

    @property
    def posterior(self) -> np.ndarray:
        """The probability of each class given each image, [n, K] float64: by the class head
        where there is one, else by bits."""
        if self.logits is not None:
            return posterior(-self.logits.astype(np.float64) / np.log(2))
        assert self.posterior_by_bits is not None
        return self.posterior_by_bits

    @property
    def posterior_by_bits(self) -> np.ndarray | None:
        """The probability of each class given each image by bits, [n, K] float64; None where these
        were not read."""
        if self.compared_bits is None:
            return None
        fitted = posterior(self.compared_bits, self.temperature)
        return np.where(self.noisy[:, None], posterior(self.compared_bits), fitted)

    @property
    def best(self) -> tuple[str | None, ...]:
        """The name of each image's most probable class; of equals, the first; None where the
        image is not `known`."""
        labels = self.posterior.argmax(axis=-1).tolist()
        names = [self.class_names[label] for label in labels]
        known = self.known.tolist()
        return tuple(
            name if is_known else None for name, is_known in zip(names, known, strict=True)
        )

    @property
    def typical(self) -> np.ndarray | None:
        """Whether each image is like the model's test images, [n] bool; of others the posterior
        means little."""
        if self.tail_probabilities is None:
            return None
        return self.tail_probabilities >= TYPICAL

    @property
    def known(self) -> np.ndarray:
        """Whether an image is named a class, [n] bool: unless it is not typical, and, by bits, for
        another reason than noise."""
        if self.typical is None:
            return np.ones(len(self.noisy), bool)
        return self.typical if self.is_strange_by_head else self.typical | self.noisy


def posterior(bits: np.ndarray, temperature: float | None = None) -> np.ndarray:
    """Return the probabilities [..., K] of K classes, equally likely before, given what an image
    costs under each, bits [..., K] float64. An image that no class allows says nothing: its
    probabilities are equal. With a temperature a class that costs this share more than the best one
    is half as probable; without one it is by Bayes, a class that costs a bit more."""
    least = bits.min(axis=-1, keepdims=True)
    least = np.where(np.isinf(least), 0.0, least)
    above = bits - least
    if temperature is not None:
        above /= temperature * np.where(least > 0, least, 1.0)
    is_impossible = np.isinf(above).all(axis=-1, keepdims=True)
    weights = np.where(is_impossible, 1.0, np.exp2(-above))
    return weights / weights.sum(axis=-1, keepdims=True)


def fitted_temperature(bits: np.ndarray, classes: np.ndarray) -> float | None:
    """Return the temperature with which the posterior of images by their bits [n, K] gives the true
    `classes` [n] the highest likelihood; None where they are fewer than 100."""
    if len(classes) < 100:
        return None
    rows = np.arange(len(classes))
    costs = []
    for temperature in TEMPERATURES:
        of_true = posterior(bits, temperature)[rows, classes]
        of_true = np.maximum(of_true, np.finfo(float).tiny)
        costs.append(-np.log(of_true).sum())
    best = TEMPERATURES[np.argmin(costs)]
    return round(float(best), 6)


def read_temperature(data: Any) -> float | None:
    """Return the temperature that an evaluation.json holds under "classes", if any; ValueError
    where it is none."""
    section = data.get("classification") if isinstance(data, dict) else None
    value = section.get("temperature") if isinstance(section, dict) else None
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.0001 <= value <= 1:
        raise ValueError(f"temperature must be a number from 0.0001 to 1, not {value!r}")
    return float(value)


def mixture_bits(bits: np.ndarray) -> np.ndarray:
    """Return the bits [...] of the mean of the probabilities 2^-bits [..., K]: what an image costs
    whose class is drawn, every class equally likely."""
    least = bits.min(axis=-1)
    is_impossible = np.isinf(least)
    above = bits - np.where(is_impossible, 0.0, least)[..., None]
    mean = np.exp2(-above).mean(axis=-1)  # at least 1 / K, or 0 where it is impossible
    with np.errstate(divide="ignore"):
        mean_bits = -np.log2(mean)
    return np.where(is_impossible, least, least + mean_bits)


def views(config: ModelConfig, images: np.ndarray) -> np.ndarray:
    """Return images [n, N] uint8 as a model reads them to classify, [n, V, N]: as they are and,
    where it was trained on mirrored ones too, mirrored."""
    if not config.mirrored:
        return images[:, None]
    pixels = images.reshape(-1, config.height, config.width, config.channels)
    mirrored = pixels[:, :, ::-1].reshape(images.shape)
    return np.stack((images, mirrored), axis=1)


def readings(config: ModelConfig) -> int:
    """Return how often a classification reads an image: once for each class, or twice, mirrored
    too."""
    return (1 + config.mirrored) * len(config.classes)


def of_readings(config: ModelConfig, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bits of n images under each class and those that classes are compared by, both [n,
    K], from the bits of all readings, [n * V * K]: of each image, of each view, of each class."""
    of_views = totals.reshape(-1, 1 + config.mirrored, len(config.classes))
    return of_views[:, 0], of_views.mean(axis=1)


def check_classes(config: ModelConfig) -> None:
    """Raise InvalidInput where a model cannot classify."""
    if not config.classes:
        raise InvalidInput("This model knows no classes and cannot classify.", "model")
