"""Test images as other people might have drawn them: in ways that no class head is fitted to."""

from itertools import cycle

import numpy as np
from PIL import Image, ImageFilter

MOVED = 3  # pixels, in each of eight directions
FINE = 4  # pixels to a side of one, while strokes become thicker
PEN = 3  # fine pixels on either side


def changed(drawings: np.ndarray) -> dict[str, np.ndarray]:
    """Return drawings [n, H, W] uint8 on 0 by what was changed: moved by MOVED pixels, of half the
    grey, with strokes that are three quarters of a pixel thicker on either side, or inverted."""
    thick = np.stack([_thick(drawing) for drawing in drawings])
    return {
        "moved": _moved(drawings),
        "halved": drawings // 2,
        "thick": thick,
        "inverted": 255 - drawings,
    }


def _moved(drawings: np.ndarray) -> np.ndarray:
    _, height, width = drawings.shape
    margin = (MOVED, MOVED)
    padded = np.pad(drawings, ((0, 0), margin, margin))
    starts = (0, MOVED, 2 * MOVED)
    corners = [(row, column) for row in starts for column in starts]
    corners.remove((MOVED, MOVED))
    moved = []
    for drawing, (row, column) in zip(padded, cycle(corners), strict=False):
        part = drawing[row : row + height, column : column + width]
        moved.append(part)
    return np.stack(moved)


def _thick(drawing: np.ndarray) -> np.ndarray:
    height, width = drawing.shape
    picture = Image.fromarray(drawing)
    fine = picture.resize((FINE * width, FINE * height), Image.Resampling.BICUBIC)
    thicker = fine.filter(ImageFilter.MaxFilter(2 * PEN + 1))
    thick = thicker.resize((width, height), Image.Resampling.BOX)
    return np.asarray(thick)
