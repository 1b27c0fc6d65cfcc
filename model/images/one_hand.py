"""Letters of a word in one hand: as heavy and as upright as the middle one of them.

They are painted each for itself, by models that know many hands. The pictures of a request stay as
they are: this is how a word is set. All is in whole numbers, or in quotients and roots that every
language rounds alike: the page's server/web/src/paint/one_hand.ts makes equal bytes.
"""

from itertools import pairwise

import numpy as np

PART = 64  # slants are in 1/64 of a pixel a row
FAR_EDGES = 5 / 4  # for those that are measured, since edges that lean far are not
CLEAR = 5 / 4  # brightness of letters, which are blurred where they are changed
STEPS = 8  # of weights, between a letter and one that is bolder by a pixel on each side


def one_hand(letters: np.ndarray) -> np.ndarray:
    """Return light letters on black [n, H, W] uint8 with the slant and the strokes of the middle
    one of them, as far as a letter can be changed."""
    ink = letters.astype(np.int64)
    slants = _slants(ink)
    upright = _sheared(ink, slants - _middle(slants))
    target = _middle(_strokes(ink))
    bolder = _bolder(upright)
    levels = [_lighter(upright), upright, bolder, _bolder(bolder)]
    chosen = upright
    least = np.full(len(ink), np.inf)
    for low, high in pairwise(levels):
        for step in range(STEPS):
            weight = low + (high - low) * step // STEPS
            weight = (CLEAR * weight).astype(np.int64).clip(max=255)
            off = np.abs(_strokes(weight) - target)
            is_better = off < least
            chosen = np.where(is_better[:, None, None], weight, chosen)
            least = np.minimum(off, least)
    return chosen.astype(np.uint8)


def _middle(values: np.ndarray) -> np.ndarray:
    return np.sort(values)[len(values) // 2]


def _moved(ink: np.ndarray, down: int, right: int) -> np.ndarray:
    """Return ink [n, H, W] moved by at most a pixel."""
    _, height, width = ink.shape
    padded = np.pad(ink, ((0, 0), (1, 1), (1, 1)))
    return padded[:, 1 - down :, 1 - right :][:, :height, :width]


def _cross(ink: np.ndarray) -> list[np.ndarray]:
    """Return for each pixel itself and its four neighbours."""
    beside = [_moved(ink, 0, 1), _moved(ink, 0, -1)]
    return [ink, *beside, _moved(ink, 1, 0), _moved(ink, -1, 0)]


def _bolder(ink: np.ndarray) -> np.ndarray:
    return np.maximum.reduce(_cross(ink))


def _lighter(ink: np.ndarray) -> np.ndarray:
    """Return letters without the edges of their strokes, where these are wider than two pixels."""
    inner = np.minimum.reduce(_cross(ink))
    rows = np.maximum.reduce([inner, _moved(inner, 0, 1), _moved(inner, 0, -1)])
    wide = np.maximum.reduce([rows, _moved(rows, 1, 0), _moved(rows, -1, 0)])
    return ink - np.minimum(ink, wide) + inner


def _strokes(ink: np.ndarray) -> np.ndarray:
    """Return about half the width of letters' strokes, [n]: their ink by their outline's length."""
    across = ink - _moved(ink, 0, 1)
    down = ink - _moved(ink, 1, 0)
    outline = np.sqrt(across**2 + down**2).astype(np.int64)
    return ink.sum(axis=(1, 2)) / outline.sum(axis=(1, 2)).clip(1)


def _change(ink: np.ndarray, down: int, right: int) -> np.ndarray:
    """Return how much brighter letters get in a direction, of three lines beside each other."""
    lines = 2 * ink + _moved(ink, right, down) + _moved(ink, -right, -down)
    return _moved(lines, -down, -right) - _moved(lines, down, right)


def _slants(ink: np.ndarray) -> np.ndarray:
    """Return how far the nearly upright edges of letters lean to the right, [n] int64."""
    across = _change(ink, 0, 1)
    down = _change(ink, 1, 0)
    across[2 * np.abs(down) >= np.abs(across)] = 0
    leaning = (across * down).sum(axis=(1, 2))
    edges = (across**2).sum(axis=(1, 2)).clip(1)
    return np.floor(FAR_EDGES * PART * leaning / edges + 0.5).astype(np.int64)


def _sheared(ink: np.ndarray, lean: np.ndarray) -> np.ndarray:
    """Return letters that lean so much less, [n], around their middle row."""
    _, height, width = ink.shape
    row = np.arange(height)[:, None]
    away = lean[:, None, None] * (row - height // 2)  # [n, H, 1], to the right
    source = np.arange(width) - away // PART  # [n, H, W], columns
    part = away % PART
    padded = np.pad(ink, ((0, 0), (0, 0), (1, 1)))
    near = np.take_along_axis(padded, (source + 1).clip(0, width + 1), axis=2)
    far = np.take_along_axis(padded, source.clip(0, width + 1), axis=2)
    return (near * (PART - part) + far * part) // PART
