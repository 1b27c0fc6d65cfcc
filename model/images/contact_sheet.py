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
    if columns is None:
        columns = ceil(sqrt(count))
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
    count, *shape = images.shape
    gap = gap_of(scale)
    rows, columns = grid(count, columns)
    unused = np.zeros((rows * columns - count, *shape), np.uint8)
    cells = np.concatenate((images, unused))
    if scale > 1:  # a sheet that a server sends is not copied for it
        cells = cells.repeat(scale, axis=1)
        cells = cells.repeat(scale, axis=2)
        margins = [(0, 0)] * cells.ndim
        margins[1:3] = [(0, gap), (0, gap)]
        cells = np.pad(cells, margins, constant_values=PAPER)
    height, width, *channels = cells.shape[1:]
    in_rows = cells.reshape(rows, columns, height, width, *channels)
    whole = in_rows.swapaxes(1, 2).reshape(rows * height, columns * width, *channels)
    # without the gaps at its right and lower ends
    whole = whole[: rows * height - gap, : columns * width - gap]
    return Image.fromarray(np.ascontiguousarray(whole))


def class_sheet(
    images: np.ndarray,  # [K, n, H, W] or [K, n, H, W, 3] uint8
    names: Sequence[str],  # [K]
    scale: int = 1,  # see `sheet`; names are then black on white
    titles: Sequence[str] = (),  # of the n columns, above them; none, or n
) -> Image.Image:
    """Return images as one picture: a row of n for each of K classes, after its name where the row
    is high enough for letters, or its number, from 1, where the font lacks one of them."""
    count, height, width = images.shape[1:4]
    rows = sheet(images.reshape(-1, *images.shape[2:]), count, scale)
    if scale * height < MIN_ROW:
        return rows
    paper = 0 if scale == 1 else PAPER
    ink = NAME_GREY if scale == 1 else INK
    font = ImageFont.load_default(NAME_SIZE)
    unknown = bytes(font.getmask(UNKNOWN))
    texts = []
    for row, name in enumerate(names, 1):
        letters = [bytes(font.getmask(letter)) for letter in name]
        texts.append(str(row) if unknown in letters else name)

    # The rows, and room for names on the left and titles above.
    left = 0
    if texts:
        widest = max(map(font.getlength, texts))
        left = ceil(widest) + 2 * MARGIN
    top = 0
    if titles:
        top = NAME_SIZE + 2 * MARGIN
    bands = len(rows.getbands())
    across = scale * width + gap_of(scale)
    down = scale * height + gap_of(scale)
    whole = Image.new(rows.mode, (left + rows.width, top + rows.height), (paper,) * bands)
    whole.paste(rows, (left, top))
    draw = ImageDraw.Draw(whole)
    colour = (ink,) * bands
    for row, text in enumerate(texts):
        middle = top + row * down + scale * height / 2
        draw.text((left - MARGIN, middle), text, colour, font, anchor="rm")
    for column, title in enumerate(titles):
        if font.getlength(title) <= across:
            middle = left + column * across + scale * width / 2
            draw.text((middle, top / 2), title, colour, font, anchor="mm")
    return whole


def save(images: np.ndarray, path: Path, columns: int | None = None) -> None:
    """Write the sheet as a PNG, atomically."""
    write(sheet(images, columns), path)


def write(picture: Image.Image, path: Path) -> None:
    """Write a sheet as a PNG, atomically."""
    out = BytesIO()
    picture.save(out, format="PNG")
    write_file(path, out.getvalue())
