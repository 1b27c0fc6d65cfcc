"""Contact sheets: many small images as one picture, row by row in a grid that is nearly square, or a row for each
class."""

from collections.abc import Sequence
from math import ceil, sqrt
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from scanline.model.atomic import write_atomically

UNKNOWN = "\U0010ffff"  # is drawn as any character that the font lacks
NAME_SIZE, MIN_ROW = 12, 10  # pixels: of the letters of a class's name, and of a row that has room for them
MARGIN, NAME_GREY = 4, 170  # around a name, on black
UNPAINTED = 128  # the grey that pictures show for a byte that is not painted yet


def grid(count: int, columns: int | None = None) -> tuple[int, int]:
    """Return the rows and the columns of a sheet of so many images."""
    columns = ceil(sqrt(count)) if columns is None else columns
    return ceil(count / columns), columns


def sheet(images: np.ndarray, columns: int | None = None) -> Image.Image:
    """Return images [n, H, W] or [n, H, W, 3] uint8 as one picture, row by row; unused cells are black.

    columns: the square root of n, rounded up, where it is None.
    """
    count, height, width = images.shape[:3]
    rows, columns = grid(count, columns)
    padding = np.zeros((rows * columns - count, *images.shape[1:]), np.uint8)
    cells = np.concatenate((images, padding)).reshape(rows, columns, *images.shape[1:])
    return Image.fromarray(
        np.ascontiguousarray(cells.swapaxes(1, 2)).reshape(rows * height, columns * width, *images.shape[3:])
    )


def class_sheet(images: np.ndarray, names: Sequence[str]) -> Image.Image:
    """Return images [K, n, H, W] or [K, n, H, W, 3] uint8 as one picture: a row of n for each of K classes, after its
    name where the row is high enough for letters, or its number, from 1, where the font lacks one of them."""
    classes, count, height = images.shape[:3]
    rows = sheet(images.reshape(classes * count, *images.shape[2:]), count)
    if height < MIN_ROW:
        return rows
    font = ImageFont.load_default(NAME_SIZE)
    unknown = bytes(font.getmask(UNKNOWN))
    is_drawn = [all(bytes(font.getmask(letter)) != unknown for letter in name) for name in names]
    names = [name if drawn else str(row) for row, (name, drawn) in enumerate(zip(names, is_drawn, strict=True), 1)]
    margin = ceil(max(font.getlength(name) for name in names)) + 2 * MARGIN
    whole = Image.new(rows.mode, (margin + rows.width, rows.height))
    whole.paste(rows, (margin, 0))
    draw = ImageDraw.Draw(whole)
    ink = NAME_GREY if rows.mode == "L" else (NAME_GREY,) * 3
    for row, name in enumerate(names):
        draw.text((margin - MARGIN, (row + 0.5) * height), name, ink, font, anchor="rm")
    return whole


def save(images: np.ndarray, path: Path, columns: int | None = None) -> None:
    """Write the sheet as a PNG, atomically."""
    write_atomically(path, lambda temporary: sheet(images, columns).save(temporary, format="PNG"))
