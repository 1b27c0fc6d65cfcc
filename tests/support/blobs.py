"""A small data set in the format of MNIST: one bright spot in each
image, whose quarter is the class.
"""

import gzip
import struct

import numpy as np

SPLITS = {"train": 64, "t10k": 16}


def _centres(count, seed):
    return np.random.default_rng(seed).uniform(8, 20, (count, 2, 1, 1))


def images(count, seed):
    """[count, 28, 28] uint8."""
    centres = _centres(count, seed)
    rows, columns = np.mgrid[:28, :28]
    distances = (rows - centres[:, 0]) ** 2 + (columns - centres[:, 1]) ** 2
    return (255 * np.exp(-distances / 12)).astype(np.uint8)


def labels(count, seed):
    """[count] uint8, 0 to 3."""
    below, right = (_centres(count, seed)[:, :, 0, 0] > 14).T
    return (2 * below + right).astype(np.uint8)


def _idx(magic, array):
    return gzip.compress(struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes())


def write(directory, counts=SPLITS, shift=0):
    """Write the four files, gzipped; shift: of all labels."""
    for seed, (split, count) in enumerate(counts.items()):
        shifted = (labels(count, seed) + shift) % 4
        of_images = directory / f"{split}-images-idx3-ubyte.gz"
        of_labels = directory / f"{split}-labels-idx1-ubyte.gz"
        of_images.write_bytes(_idx(0x803, images(count, seed)))
        of_labels.write_bytes(_idx(0x801, shifted.astype(np.uint8)))
