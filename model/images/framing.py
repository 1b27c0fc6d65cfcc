"""Pictures of drawings as a model's own stand: light ink on 0, as strong as theirs, where theirs is.

The paper of a picture is a smooth surface, fitted to most of its pixels; ink is what differs from it on the side where
more does. A drawing is moved so that its centre of mass is where those of the model's are, and one that is far larger
or smaller than they are is scaled, as MNIST was made (LeCun et al., 1998). No colour is known here.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

INK = 32  # a byte that differs more from the ground is of a stroke
STROKES = 0.9  # the quantile of the ink that is the value of strokes
FAINT = 0.9  # of the value of the model's strokes: fainter ones are made as strong
SCALED = 1.2  # a drawing that is so many times larger or smaller than the model's is scaled
CENTRED = 0.5  # pixels, of the model's centres of mass their largest standard deviation
MAX_ODD = 0.05  # of the model's drawings, that differ in size by more than a pixel
IN_MIDDLE = 4 / 7  # of the shorter side: capitals of letters-small
FITS = 5  # of the surface of paper, each without the pixels that lay far from the one before
FAR = 3  # times the median distance
NOISE = 8  # of paper
PHOTO = 256  # pixels at the longer side of what is read of a photo
PALE = 0.25  # of the value of a photo's strokes: what is paler is paper, and what is 0.5 darker is stroke


@dataclass(frozen=True)
class Frame:
    """Where a model's drawings stand."""

    size: int  # pixels at the longer side of the ink's box
    row: float  # of the centre of mass
    column: float

    @classmethod
    def measure(cls, drawings: np.ndarray) -> "Frame | None":
        """Return the frame of drawings [n, H, W] uint8 on 0; None where they stand differently."""
        has_ink = (drawings > INK).any(axis=(1, 2))
        inked = drawings[has_ink]
        if not len(inked):
            return None
        centres = np.array([_centre(ink) for ink in inked])
        sizes = np.array([_longer(_box(ink)) for ink in inked])
        size = int(np.median(sizes))
        spread = centres.std(axis=0).max()
        odd = (abs(sizes - size) > 1).mean()
        if spread > CENTRED or odd > MAX_ODD:
            return None
        row, column = centres.mean(axis=0).round(1).tolist()
        return cls(size, row, column)

    @classmethod
    def in_middle(cls, height: int, width: int) -> "Frame":
        """Return where a photo's drawing stands in a model whose drawings differ in size and place,
        as letters do: as large as those that span most."""
        return cls(round(IN_MIDDLE * min(height, width)), height / 2, width / 2)

    def place(self, ink: np.ndarray, height: int, width: int) -> np.ndarray:
        """Return ink [H', W'] uint8 as a drawing [height, width] uint8."""
        rows, columns = box = _box(ink)
        scale = self.size / _longer(box)
        if ink.shape != (height, width) or not 1 / SCALED <= scale <= SCALED:
            part = Image.fromarray(ink[rows, columns])
            new_width = max(1, round(scale * part.width))
            new_height = max(1, round(scale * part.height))
            # One direction after the other: versions of Pillow differ in their order.
            narrow = part.resize((new_width, part.height))
            resized = narrow.resize((new_width, new_height))
            ink = strong(np.asarray(resized), int(ink.max()))
        row, column = _centre(ink)
        corner = (round(self.column - column), round(self.row - row))
        drawing = Image.new("L", (width, height))
        drawing.paste(Image.fromarray(ink), corner)
        return np.asarray(drawing)

    def photo(self, picture: Image.Image, stroke: int, size: tuple[int, int]) -> np.ndarray | None:
        """Return the drawing [H, W] uint8 with strokes of this value of a grey picture of any
        size; None where nothing is drawn on it. size: of the drawing, W and H."""
        reduced = picture.copy()
        reduced.thumbnail((PHOTO, PHOTO))
        ink = from_paper(np.asarray(reduced))
        level = _level(ink)
        if not level:
            return None
        share = (ink / level - PALE) / 0.5
        dark = stroke * share.clip(0, 1)
        width, height = size
        return self.place(dark.astype(np.uint8), height, width)


def from_paper(grey: np.ndarray) -> np.ndarray:
    """Return how far each pixel of a picture [H, W] uint8 lies from its paper, on the side where
    its ink does, uint8."""
    height, width = grey.shape
    row = np.linspace(-1, 1, height).repeat(width)
    column = np.tile(np.linspace(-1, 1, width), height)
    one = np.ones_like(row)
    # The surface is a polynomial of the second degree.
    terms = np.stack((one, row, column, row * column, row**2, column**2), axis=1)
    values = grey.reshape(-1).astype(np.float64)
    away = values - np.median(values)
    for _ in range(FITS):
        distance = np.abs(away)
        farthest = max(FAR * np.median(distance), NOISE)
        is_paper = distance <= farthest
        of_paper = terms[is_paper]
        squares = np.linalg.pinv(of_paper.T @ of_paper)
        surface = squares @ of_paper.T @ values[is_paper]
        away = values - terms @ surface
    is_dark = (away**3).sum() < 0
    ink = -away if is_dark else away
    bytes_of_ink = ink.round().clip(0, 255).astype(np.uint8)
    return bytes_of_ink.reshape(height, width)


def strong(ink: np.ndarray, stroke: int) -> np.ndarray:
    """Return ink [H, W] uint8 whose strokes have this value, where they are fainter."""
    level = _level(ink)
    if not level or level >= FAINT * stroke:
        return ink
    stronger = ink * (stroke / level)
    return stronger.clip(0, stroke).round().astype(np.uint8)


def is_drawing(ink: np.ndarray) -> bool:
    """Return whether ink [H, W] is strokes on more ground."""
    strokes = (ink > INK).sum()
    return bool(0 < 2 * strokes <= ink.size)


def _level(ink: np.ndarray) -> float:
    """Return the value of the strokes of ink; 0 where there are none."""
    strokes = ink[ink > INK]
    return float(np.quantile(strokes, STROKES)) if strokes.size else 0.0


def _box(ink: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and columns with strokes, of which there must be one."""
    rows, columns = np.nonzero(ink > INK)
    return slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1)


def _longer(box: tuple[slice, slice]) -> int:
    sides = [int(side.stop - side.start) for side in box]
    return max(sides)


def _centre(ink: np.ndarray) -> tuple[float, float]:
    """Return the centre of mass of ink [H, W], row and column."""
    height, width = ink.shape
    mass = ink.sum()
    row = ink.sum(axis=1) @ np.arange(height)
    column = ink.sum(axis=0) @ np.arange(width)
    return float(row / mass), float(column / mass)
