"""Digits of MNIST drawn again at another size: more digits than there are, to train on.

MNIST's digits are bilevel scans, of m pixels along their larger side, reduced to 20 pixels. Their greys follow from m
and from the pixels of the scan that fall on each pixel, which a network learns by heart where it sees the same 60,000
reductions again and again. A redrawn digit has the shape of one of them and the greys of another m: it is enlarged to
about m pixels, made bilevel at a threshold, with a little noise on its edge, and reduced as MNIST was.

How MNIST was reduced: Yadav and Bottou, "Cold Case: The Lost MNIST Digits" (2019), section 2, and the bytes of its
files.
"""

from functools import cache
from math import gcd

import numpy as np
import torch
import torch.nn.functional as F

SIDE, BOX = 28, 20  # pixels of a digit, and of the square that it is reduced to
KEPT = 0.99  # of the width of a source pixel, where it is divided between two pixels
BELOW = 1e-7  # sums of shares that have no exact float32 were rounded down
SIZES = np.arange(24, 81)  # of a scan's larger side
KNOWN_SIZES = [24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 66, 70, 74, 80]
KNOWN_SHARES = [4, 12, 18, 28, 36, 40, 36, 28, 20, 17, 12, 8, 5, 2]  # as in MNIST, roughly
SHARES = np.interp(SIZES, KNOWN_SIZES, KNOWN_SHARES) / np.interp(SIZES, KNOWN_SIZES, KNOWN_SHARES).sum()
MARGIN = 2  # pixels around a digit, before it is enlarged
SIZE_SPREAD, THRESHOLD_SPREAD, MOST_NOISE = 0.03, 0.06, 0.05
GRAIN = 2  # source pixels between two independent values of the noise
SMALLEST = 12  # source pixels; less is no digit


def redraw(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return an image [28, 28] uint8 with the digit of `image` [28, 28] uint8 redrawn, or a copy where it is too small
    to be one."""
    rows, columns = (np.flatnonzero((image > 0).any(axis=axis)) for axis in (1, 0))
    if len(rows) == 0:
        return image.copy()
    digit = np.pad(image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], MARGIN)
    scale = random.choice(SIZES, p=SHARES) / BOX * random.uniform(1 - SIZE_SPREAD, 1 + SIZE_SPREAD)
    height, width = (round(scale * side) for side in digit.shape)
    ink = _enlarged(digit.astype(np.float32) / 255, height, width)
    noise = random.standard_normal((height // GRAIN + 1, width // GRAIN + 1), dtype=np.float32)
    ink += random.uniform(0, MOST_NOISE) * _enlarged(noise, height, width)
    scan = ink > random.uniform(0.5 - THRESHOLD_SPREAD, 0.5 + THRESHOLD_SPREAD)
    rows, columns = (np.flatnonzero(scan.any(axis=axis)) for axis in (1, 0))
    if max(len(rows), len(columns)) < SMALLEST:
        return image.copy()
    return reduced(scan[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])


def reduced(scan: np.ndarray) -> np.ndarray:
    """Return the image [28, 28] uint8 of a scan [h, w] bool, which its ink touches on all sides: reduced to 20 pixels
    along the larger side, and with its centre of mass in the middle."""
    height, width = scan.shape
    size = max(height, width)
    square = np.zeros((size, size))
    top, left = (size - height) // 2, (size - width) // 2
    square[top : top + height, left : left + width] = scan
    shares = reduction(size)
    box = to_bytes(shares @ square @ shares.T)
    weights, centres = box.astype(float), np.arange(BOX) + 0.5
    middle = [(weights.sum(axis) @ centres) / weights.sum() for axis in (1, 0)]
    top, left = (min(max(int(SIDE / 2 + 1 - centre), 0), SIDE - BOX) for centre in middle)
    image = np.zeros((SIDE, SIDE), np.uint8)
    image[top : top + BOX, left : left + BOX] = box
    return image


@cache
def reduction(size: int) -> np.ndarray:
    """Return [20, size]: the share of each of `size` source pixels in a row in each of 20 pixels. A divided pixel loses
    1 % of its width, though not where the boundaries of the two grids meet at the ends alone."""
    shares, scale = np.zeros((BOX, size)), BOX / size
    kept = KEPT if gcd(size, BOX) > 1 else 1.0
    for pixel in range(size):
        start = scale * pixel
        stop = start + kept * scale
        first, last = int(start + 1e-11), int(np.ceil(stop - 1e-11)) - 1
        if first == last:
            shares[first, pixel] = scale
        else:
            shares[first, pixel], shares[last, pixel] = first + 1 - start, stop - last
    return shares if size % BOX == 0 else shares * (1 - BELOW)


def to_bytes(ink: np.ndarray) -> np.ndarray:
    """Return bytes [...] uint8 for shares of ink [...], from 0 to 1: as MNIST's program rounded values from -1 to 1."""
    value = np.floor(127.5 * (2 * np.minimum(ink, 1) - 1) + 0.5 + BELOW)
    return np.where(ink <= 0, 0, np.where(value <= 0, 128 + value, 127 + value)).clip(0, 255).astype(np.uint8)


def _enlarged(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return values [height, width] float32 between those [h, w] given, by cubic interpolation."""
    given = torch.from_numpy(values)[None, None]
    found: np.ndarray = F.interpolate(given, (height, width), mode="bicubic")[0, 0].numpy()
    return found
