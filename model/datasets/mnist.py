"""MNIST as published: IDX files, plain or gzipped (LeCun, Cortes, Burges;
yann.lecun.com/exdb/mnist).

Fashion-MNIST, KMNIST and others have the same names and shapes: what the images show is known by
their digest alone.
"""

import struct
from pathlib import Path

import numpy as np

from scanline.model.datasets.files import DataError, read

FILES = {"train": ("train-images-idx3-ubyte", 60_000), "test": ("t10k-images-idx3-ubyte", 10_000)}
LABELS = {"train": "train-labels-idx1-ubyte", "test": "t10k-labels-idx1-ubyte"}
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WORDS = tuple((str(digit), word) for digit, word in enumerate(DIGITS))  # as ModelConfig.classes
CLASSES = tuple(words[0] for words in WORDS)
# SHA-256 of the training images
DIGEST = "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757"
MAGIC = 0x00000803  # unsigned bytes, three dimensions
MAGIC_OF_LABELS = 0x00000801  # one dimension


def load(directory: Path, split: str) -> np.ndarray:
    """Return the images [60000 or 10000, 784] uint8, or as many as the file's header announces."""
    return images(*read(directory, FILES[split][0]), (28, 28)).reshape(-1, 784)


def images(path: Path, data: bytes, size: tuple[int, int] | None = None) -> np.ndarray:
    """Return the images [n, H, W] uint8 of an IDX file, of which these are the bytes; of H, W =
    `size`, or of any."""
    if len(data) < 16:
        raise DataError(f"{path} is truncated: {len(data)} bytes, less than an IDX header")
    magic, count, height, width = struct.unpack(">IIII", data[:16])
    if magic != MAGIC:
        raise DataError(
            f"{path} is not an IDX file of images: it begins with {data[:4].hex()}, not {MAGIC:08x}"
        )
    if size not in (None, (height, width)):
        raise DataError(
            f"{path} holds images of {height} x {width}, not {' x '.join(map(str, size or ()))}"
        )
    total = count * height * width
    if not total:
        raise DataError(f"{path} holds no images")
    if len(data) != 16 + total:
        raise DataError(
            f"{path} holds {len(data) - 16} bytes of pixels, not the {total} of its {count} images"
        )
    return np.frombuffer(data, np.uint8, offset=16).reshape(count, height, width)


def labels(directory: Path, split: str) -> np.ndarray:
    """Return the label [60000 or 10000] uint8 of each image of `load`: of MNIST, the digit that it
    shows."""
    path, data = read(directory, LABELS[split])
    if len(data) < 8:
        raise DataError(f"{path} is truncated: {len(data)} bytes, less than an IDX header")
    magic, count = struct.unpack(">II", data[:8])
    if magic != MAGIC_OF_LABELS:
        begins = f"it begins with {data[:4].hex()}, not {MAGIC_OF_LABELS:08x}"
        raise DataError(f"{path} is not an IDX file of labels: {begins}")
    if len(data) != 8 + count:
        raise DataError(f"{path} holds {len(data) - 8} labels, not the {count} that it announces")
    return np.frombuffer(data, np.uint8, offset=8)
