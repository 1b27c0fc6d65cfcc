"""Contact sheets: many small images as one picture, in rows that make it nearly square, or a row
for each class."""

from collections.abc import Sequence
from io import BytesIO
from math import ceil, sqrt
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from scanline.model.base.atomic import write_file

UNKNOWN = "\U0010ffff"  # is drawn as any character that the font lacks
# pixels: of the letters of a class's name, and of a row that has room for them
NAME_SIZE = 12
MIN_ROW = 10
# around a name, on black
MARGIN = 4
NAME_GREY = 170
# of gaps and names where a sheet is enlarged, as a figure is
PAPER = 255
INK = 0
UNPAINTED = 128  # the grey that pictures show for a byte that is not painted yet


def grid(count: int, columns: int | None = None) -> tuple[int, int]:
    """Return the rows and the columns of a sheet of so many images."""
    columns = ceil(sqrt(count)) if columns is None else columns
    return ceil(count / columns), columns


def gap_of(scale: int) -> int:
    """Return the pixels between the images of a sheet: as many as one of theirs takes, none where
    it is one."""
    return scale if scale > 1 else 0


def sheet(images: np.ndarray, columns: int | None = None, scale: int = 1) -> Image.Image:
    """Return images [n, H, W] or [n, H, W, 3] uint8 as one picture,
    row by row; unused cells are black.

    columns: the square root of n, rounded up, where it is None. scale: pixels of the sheet to one
    of the images; from 2 on there are white gaps of as many pixels between them.
    """
    count = len(images)
    gap = gap_of(scale)
    rows, columns = grid(count, columns)
    cells = np.concatenate(
        (images, np.zeros((rows * columns - count, *images.shape[1:]), np.uint8))
    )
    if scale > 1:  # a sheet that a server sends is not copied for it
        cells = cells.repeat(scale, 1).repeat(scale, 2)
        cells = np.pad(
            cells,
            ((0, 0), (0, gap), (0, gap), *((0, 0),) * (images.ndim - 3)),
            constant_values=PAPER,
        )
    height, width = cells.shape[1:3]
    cells = cells.reshape(rows, columns, *cells.shape[1:]).swapaxes(1, 2)
    whole = cells.reshape(rows * height, columns * width, *images.shape[3:])
    return Image.fromarray(
        np.ascontiguousarray(whole[: rows * height - gap, : columns * width - gap])
    )


def class_sheet(
    images: np.ndarray, names: Sequence[str], scale: int = 1, titles: Sequence[str] = ()
) -> Image.Image:
    """Return images [K, n, H, W] or [K, n, H, W, 3] uint8 as one picture: a row of n for each
    of K classes, after its name where the row is high enough for letters, or its number, from
    1, where the font lacks one of them.

    scale: see `sheet`; names are then black on white. titles: of
    the n columns, above them; none, or n.
    """
    classes, count, height, width = images.shape[:4]
    rows = sheet(images.reshape(classes * count, *images.shape[2:]), count, scale)
    if scale * height < MIN_ROW:
        return rows
    paper, ink = (0, NAME_GREY) if scale == 1 else (PAPER, INK)
    font = ImageFont.load_default(NAME_SIZE)
    unknown = bytes(font.getmask(UNKNOWN))
    is_drawn = [all(bytes(font.getmask(letter)) != unknown for letter in name) for name in names]
    names = [
        name if drawn else str(row)
        for row, (name, drawn) in enumerate(zip(names, is_drawn, strict=True), 1)
    ]
    left = ceil(max(font.getlength(name) for name in names)) + 2 * MARGIN if names else 0
    top = NAME_SIZE + 2 * MARGIN if titles else 0
    bands = len(rows.getbands())
    across = scale * width + gap_of(scale)
    down = scale * height + gap_of(scale)
    whole = Image.new(rows.mode, (left + rows.width, top + rows.height), (paper,) * bands)
    whole.paste(rows, (left, top))
    draw = ImageDraw.Draw(whole)
    for row, name in enumerate(names):
        draw.text(
            (left - MARGIN, top + row * down + scale * height / 2),
            name,
            (ink,) * bands,
            font,
            anchor="rm",
        )
    for column, title in enumerate(titles):
        if font.getlength(title) <= across:
            draw.text(
                (left + column * across + scale * width / 2, top / 2),
                title,
                (ink,) * bands,
                font,
                anchor="mm",
            )
    return whole


def save(images: np.ndarray, path: Path, columns: int | None = None) -> None:
    """Write the sheet as a PNG, atomically."""
    write(sheet(images, columns), path)


def write(picture: Image.Image, path: Path) -> None:
    """Write a sheet as a PNG, atomically."""
    out = BytesIO()
    picture.save(out, format="PNG")
    write_file(path, out.getvalue())
