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


def write(directory, counts=SPLITS, shift=0):
    """Write the four files, gzipped; shift: of all labels."""
    for seed, (split, count) in enumerate(counts.items()):
        data = gzip.compress(
            struct.pack(">IIII", 0x803, count, 28, 28) + images(count, seed).tobytes()
        )
        (directory / f"{split}-images-idx3-ubyte.gz").write_bytes(data)
        data = gzip.compress(
            struct.pack(">II", 0x801, count)
            + ((labels(count, seed) + shift) % 4).astype(np.uint8).tobytes()
        )
        (directory / f"{split}-labels-idx1-ubyte.gz").write_bytes(data)
