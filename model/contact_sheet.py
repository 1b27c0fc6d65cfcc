"""Contact sheets: many small images as one picture, row by row in a grid that is nearly square."""

from math import ceil, sqrt
from pathlib import Path

import numpy as np
from PIL import Image

from scanline.model.atomic import write_atomically

UNPAINTED = 128  # the grey that pictures show for a byte that is not painted yet


def sheet(images: np.ndarray, columns: int | None = None) -> Image.Image:
    """Return images [n, H, W] or [n, H, W, 3] uint8 as one picture, row by row; unused cells are black.

    columns: the square root of n, rounded up, where it is None.
    """
    count, height, width = images.shape[:3]
    columns = ceil(sqrt(count)) if columns is None else columns
    rows = ceil(count / columns)
    padding = np.zeros((rows * columns - count, *images.shape[1:]), np.uint8)
    grid = np.concatenate((images, padding)).reshape(rows, columns, *images.shape[1:])
    return Image.fromarray(
        np.ascontiguousarray(grid.swapaxes(1, 2)).reshape(rows * height, columns * width, *images.shape[3:])
    )


def save(images: np.ndarray, path: Path, columns: int | None = None) -> None:
    """Write the sheet as a PNG, atomically."""
    write_atomically(path, lambda temporary: sheet(images, columns).save(temporary, format="PNG"))
