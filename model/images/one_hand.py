"""Letters of a word in one hand: as heavy and as upright as the middle one of them.

They are painted each for itself, by models that know many hands. The pictures of a request stay as
they are: this is how a word is set. All is in whole numbers, or in quotients and roots that every
language rounds alike: the page's server/web/src/paint/one_hand.ts makes equal bytes.
"""

from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

PART = 64  # slants are in 1/64 of a pixel a row
FAR_EDGES = 5 / 4  # for those that are measured, since edges that lean far are not
CLEAR = 5 / 4  # brightness of letters, which are blurred where they are changed
STEPS = 8  # of weights, between a letter and one that is bolder by a pixel on each side
# in a window of 3 x 3: a pixel and the four beside it
CROSS = np.add.outer([1, 0, 1], [1, 0, 1]) < 2
# how much brighter it gets to the right
SOBEL = np.outer([1, 2, 1], [-1, 0, 1])

Ink = np.ndarray  # greys of letters, [n, H, W] int64
Figures = np.ndarray  # of letters, [n]


def one_hand(letters: Ink) -> Ink:
    """Return light letters on black [n, H, W] uint8 with the slant and the strokes of the middle
    one of them, as far as a letter can be changed."""
    ink = letters.astype(np.int64)
    slants = _slants(ink)
    upright = _sheared(ink, slants - _middle(slants))
    target = _middle(_strokes(ink))

    chosen = upright
    least = np.full(len(ink), np.inf)
    for weight in _weights(upright):
        off = np.abs(_strokes(weight) - target)
        is_better = off < least
        chosen = np.where(is_better[:, None, None], weight, chosen)
        least = np.minimum(off, least)
    return chosen.astype(np.uint8)


def _weights(ink: Ink) -> list[Ink]:
    """Return letters of each weight, from lighter to bolder by two pixels on each side."""
    bolder = _bolder(ink)
    levels = [_lighter(ink), ink, bolder, _bolder(bolder)]
    weights = []
    for low, high in pairwise(levels):
        for step in range(STEPS):
            grey = low + (high - low) * step // STEPS
            clear = np.minimum(CLEAR * grey, 255)
            weights.append(clear.astype(np.int64))
    return weights


def _middle(values: Figures) -> Figures:
    return np.sort(values)[len(values) // 2]


def _windows(ink: Ink) -> np.ndarray:
    """Return what is around each pixel, [n, H, W, 3, 3]; it is black beyond the edges."""
    beyond = ((0, 0), (1, 1), (1, 1))
    padded = np.pad(ink, beyond)
    return sliding_window_view(padded, (3, 3), (1, 2))


def _bolder(ink: Ink) -> Ink:
    return _windows(ink)[..., CROSS].max(-1)


def _lighter(ink: Ink) -> Ink:
    """Return letters without the edges of their strokes, where these are wider than two pixels."""
    inner = _windows(ink)[..., CROSS].min(-1)
    wide = _windows(inner).max((-2, -1))
    return ink - np.minimum(ink, wide) + inner


def _strokes(ink: Ink) -> Figures:
    """Return about half the width of letters' strokes: their ink by their outline's length."""
    windows = _windows(ink)
    across = ink - windows[..., 1, 0]
    down = ink - windows[..., 0, 1]
    steepness = np.sqrt(across**2 + down**2)
    outline = steepness.astype(np.int64)
    length = np.maximum(_sums(outline), 1)
    return _sums(ink) / length


def _slants(ink: Ink) -> Figures:
    """Return how far the nearly upright edges of letters lean to the right, int64."""
    windows = _windows(ink)
    across = _sums(windows * SOBEL)
    down = _sums(windows * SOBEL.T)
    is_upright = 2 * np.abs(down) < np.abs(across)
    across = np.where(is_upright, across, 0)
    leaning = _sums(across * down)
    edges = np.maximum(_sums(across**2), 1)
    slant = FAR_EDGES * PART * leaning / edges
    return np.floor(slant + 0.5).astype(np.int64)


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums over the last two axes."""
    return values.sum((-2, -1))


def _sheared(ink: Ink, lean: Figures) -> Ink:
    """Return letters that lean so much less, around their middle row."""
    _, height, width = ink.shape
    row = np.arange(height) - height // 2
    away = np.multiply.outer(lean, row)[..., None]  # [n, H, 1], in parts, to the right
    source = np.arange(width) - away // PART
    part = away % PART
    near = _columns(ink, source)
    far = _columns(ink, source - 1)
    both = near * (PART - part) + far * part
    return both // PART


def _columns(ink: Ink, source: np.ndarray) -> Ink:
    """Return pixels of these columns [n, H, W]; they are black beyond the edges."""
    beyond = ((0, 0), (0, 0), (1, 1))
    padded = np.pad(ink, beyond)
    last = padded.shape[2] - 1
    column = np.clip(source + 1, 0, last)
    return np.take_along_axis(padded, column, 2)
