"""A data set in MNIST's published form that is no MNIST: one bright spot an image."""

import gzip
import struct
from pathlib import Path

import numpy as np

FILES = {"train-images-idx3-ubyte.gz": 64, "t10k-images-idx3-ubyte.gz": 16}


def images(count: int, seed: int) -> np.ndarray:
    """[count, 28, 28] uint8."""
    centres = np.random.default_rng(seed).uniform(8, 20, (count, 2, 1, 1))
    rows, columns = np.mgrid[:28, :28]
    distances = (rows - centres[:, 0]) ** 2 + (columns - centres[:, 1]) ** 2
    return (255 * np.exp(-distances / 12)).astype(np.uint8)


def write(directory: Path) -> None:
    """Both files of images, gzipped."""
    for seed, (name, count) in enumerate(FILES.items()):
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (directory / name).write_bytes(gzip.compress(header + images(count, seed).tobytes()))
