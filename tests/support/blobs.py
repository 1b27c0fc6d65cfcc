"""A small data set in the format of MNIST: one bright spot in each
image, whose quarter is the class.
"""

import gzip
import struct

import numpy as np

SPLITS = {"train": 64, "t10k": 16}


def _centres(count, seed):
    """The row and the column of each spot."""
    random = np.random.default_rng(seed)
    return random.uniform(8, 20, (count, 2)).T


def images(count, seed):
    """[count, 28, 28] uint8."""
    y, x = _centres(count, seed)
    rows, columns = np.mgrid[:28, :28]
    down = rows - y[:, None, None]
    right = columns - x[:, None, None]
    brightness = np.exp(-(down**2 + right**2) / 12)
    return (255 * brightness).astype(np.uint8)


def labels(count, seed):
    """[count] uint8, 0 to 3."""
    y, x = _centres(count, seed)
    quarter = 2 * (y > 14) + (x > 14)
    return quarter.astype(np.uint8)


def _idx(magic, array):
    header = struct.pack(f">{1 + array.ndim}I", magic, *array.shape)
    return gzip.compress(header + array.tobytes())


def write(directory, counts=SPLITS, shift=0):
    """Write the four files, gzipped; shift: of all labels."""
    for seed, (split, count) in enumerate(counts.items()):
        shifted = (labels(count, seed) + shift) % 4
        of_images = directory / f"{split}-images-idx3-ubyte.gz"
        of_labels = directory / f"{split}-labels-idx1-ubyte.gz"
        of_images.write_bytes(_idx(0x803, images(count, seed)))
        of_labels.write_bytes(_idx(0x801, shifted.astype(np.uint8)))
