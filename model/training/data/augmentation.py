"""Re-rendered digits of MNIST: the same shapes with other greys, so that
a long run does not memorise greys.

Nearly all bits of a digit are in the greys of its edges. They come from one reduction (Yadav and
Bottou, "Cold Case: The Lost MNIST Digits", 2019): a bilevel scan, whose larger side has m pixels,
becomes 20 x 20. Here a digit is enlarged to a random m, roughened a little, thresholded, and
reduced in the same way. The roughness is such that a network that was trained on MNIST alone needs
as many bits for these digits as for real ones that it has not seen. They are near to real ones and
not the same, so the last updates of a run, at low rates, learn real ones alone.
"""

from functools import cache
from math import floor

import numpy as np
from PIL import Image

BOX = 20  # pixels of the larger side of a digit in MNIST
SIDES = 47.2, 10.0, 22, 80  # mean, standard deviation, least and largest of the pixels m of scans
# of the width of a pixel of the scan, where the border of two reduced pixels divides it
KEPT = 0.99
# standard deviation of what is added to shares of ink, which are 0 to 1, before the threshold
ROUGHNESS = 0.065
GRAIN = 1.5  # pixels of the scan on which the roughness changes
MIN_RATE = 0.2  # of a run's highest learning rate: below it, digits are used as they are
MIN_LARGEST = 0.5  # share of ink: a fainter digit does not become black


def redrawn(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a digit [28, 28] uint8 re-rendered; an empty picture, or one
    with ink beyond a box, as it is.
    """
    rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
    if not len(rows) or max(np.ptp(rows), np.ptp(columns)) >= BOX:
        return image
    # The digit is in the middle of its box, or half a pixel above and
    # left of it; the box stays where it is.
    top, left = ((inked[0] + inked[-1] + 2 - BOX) // 2 for inked in (rows, columns))
    top, left = (min(max(corner, 0), len(image) - BOX) for corner in (top, left))
    box = slice(top, top + BOX), slice(left, left + BOX)

    side = int(np.clip(round(random.normal(*SIDES[:2])), *SIDES[2:]))
    grains = random.normal(0, ROUGHNESS, (round(side / GRAIN),) * 2)
    scan = _resized(image[box] / 255, side) + _resized(grains, side) > 0.5
    shares = reduction(side) @ scan @ reduction(side).T
    again = np.zeros_like(image)
    again[box] = to_bytes(np.minimum(shares / max(shares.max(), MIN_LARGEST), 1))
    return again


@cache
def reduction(side: int) -> np.ndarray:
    """Return the shares [20, side] of the pixels of a scan in each
    pixel of its reduction, along one side.

    A pixel between two reduced ones is divided at their border, and the second part ends at KEPT
    of the pixel's width, so that the shares of a reduced pixel sum to 1, or to a little less where
    its first part is of a divided one.
    """
    width = BOX / side
    shares = np.zeros((BOX, side))
    for pixel in range(side):
        first = floor(pixel * BOX / side)
        last = floor((pixel + KEPT) * BOX / side)
        shares[first, pixel] = width if first == last else last - pixel * width
        if first != last:
            shares[last, pixel] = (pixel + KEPT) * width - last
    return shares


def to_bytes(shares: np.ndarray) -> np.ndarray:
    """Return the bytes uint8 of shares of ink, 0 to 1: v = 127.5 (2 share - 1), rounded, halves
    up, is added to 128 below and to 127 above, and no ink is 0. As in MNIST, black whose shares
    sum to a little less than 1 is 254."""
    # a third of ink is exactly halfway, in whatever order summed
    distance = np.round(127.5 * (2 * shares - 1), 9)
    inked = np.where(distance <= 0, 128, 127) + np.floor(distance + 0.5)
    return np.where(distance > -127.5, inked, 0).astype(np.uint8)


def _resized(values: np.ndarray, side: int) -> np.ndarray:
    """Return values [n, n] as [side, side] float32, by cubic interpolation."""
    return np.asarray(
        Image.fromarray(values.astype(np.float32)).resize((side, side), Image.Resampling.BICUBIC)
    )
