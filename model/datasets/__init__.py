"""The published image sets, read from the files that their sites publish: images [n, N] uint8 in
raster order, channels innermost, and their classes. DataError says in one sentence which file is
missing, truncated or something else."""

from pathlib import Path

import numpy as np

from scanline.model.datasets import cifar10, mnist
from scanline.model.datasets.fetch import fetch
from scanline.model.datasets.files import DataError, find

__all__ = [
    "CLASSES",
    "DATASETS",
    "WORDS",
    "DataError",
    "fetch",
    "first_byte_histogram",
    "labels",
    "load",
    "of_shape",
]

DATASETS = {"mnist": mnist.load, "cifar10": cifar10.load}
LABELS = {"mnist": mnist.labels, "cifar10": cifar10.labels}
CLASSES = {"mnist": mnist.CLASSES, "cifar10": cifar10.CLASSES}
WORDS = {"mnist": mnist.WORDS, "cifar10": cifar10.WORDS}
DIGESTS = {"mnist": mnist.DIGEST, "cifar10": cifar10.DIGEST}
SHAPES = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}


def load(name: str, directory: Path, split: str) -> np.ndarray:
    """Return the images [n, N] uint8 of `split` ("train" or "test") of the set `name` in
    `directory`."""
    if not directory.is_dir():
        raise DataError(f"{directory} is not a directory")
    return DATASETS[name](directory, split)


def labels(
    name: str, directory: Path, split: str, images: np.ndarray, *, published: bool = True
) -> np.ndarray:
    """Return the label [n] uint8 of each of `images` [n, N] of the same split; of a `published`
    set, its class."""
    values = LABELS[name](directory, split)
    if len(values) != len(images):
        raise DataError(
            f"{directory} holds {len(values)} labels for the {len(images)} {split} images of {name}"
        )
    if published and len(values) and values.max() >= len(CLASSES[name]):
        raise DataError(f"{directory} is not {name}: it holds the label {values.max()}")
    return values


def set_in(directory: Path) -> str | None:
    """Return the name of the set whose files, by their names, are in a directory; None where those
    of none are."""
    if any(find(directory, file) for file, _ in mnist.FILES.values()):
        return "mnist"
    return "cifar10" if cifar10.is_in(directory) else None


def first_byte_histogram(images: np.ndarray) -> tuple[float, ...]:
    """Return how often each value is the first byte of images [n, N]: 256 shares of 1."""
    return tuple((np.bincount(images[:, 0], minlength=256) / len(images)).tolist())


def of_shape(height: int, width: int, channels: int) -> str:
    """Return the set whose images have this shape; DataError where there is none."""
    for name, shape in SHAPES.items():
        if shape == (height, width, channels):
            return name
    raise DataError(f"no data set has images of {height} x {width} x {channels}")
