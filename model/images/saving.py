"""Images written to a sheet, a film, an array or a folder, by the name of the output."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from scanline.model.atomic import write_atomically
from scanline.model.config import ModelConfig
from scanline.model.images.contact_sheet import class_sheet, grid, sheet
from scanline.model.images.film import Film
from scanline.model.images.film_files import encode as encode_film
from scanline.model.images.pictures import encode, encode_image, encode_npy

SHEETS = (".png", ".webp")
FILMS = {".gif": "gif", ".apng": "apng", ".webp": "webp", ".png": "apng"}  # the last two where a film is asked for


def check_out(out: Path, film: Film | None = None) -> Film | None:
    """Return the film that is written by that name, None where there is none; to be called before the work.

    ValueError for a name whose form is unknown, or is none of a film that is asked for, or whose folder is missing.
    """
    kind = out.suffix.lower()
    if str(out) == "-":
        raise ValueError("-: images are not written to standard output; give a file's or a folder's name")
    if kind and kind not in (*FILMS, ".npy"):
        raise ValueError(f"{out}: write a .png or .webp sheet, a .gif film, a .npy array or a folder")
    if film is not None and kind not in FILMS:
        raise ValueError(f"{out}: a film is a .gif, .webp, .png or .apng file")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"{out}: there is no directory {out.parent}")
    return Film() if film is None and kind in FILMS and kind not in SHEETS else film


def check_film(film: Film | None, count: int, config: ModelConfig, columns: int | None = None) -> None:
    """Raise InvalidInput where a film of a sheet of so many images of a model would be too large; to be called before
    they are painted."""
    if film is not None:
        rows, columns = grid(count, columns)
        film.check_size(columns * config.width, rows * config.height, config.channels)


def save_classes(images: np.ndarray, names: Sequence[str], out: Path, film: Film | None = None) -> None:
    """Write images [K, n, H, W] or [K, n, H, W, 3] uint8 of K classes by the name `out`, as `save_images` does; a sheet
    or a film has a row for each class, after its name."""
    film, kind = check_out(out, film), out.suffix.lower()
    if kind not in FILMS:
        save_images(images.reshape(-1, *images.shape[2:]), out)
        return
    classes, n, height, width = images.shape[:4]
    appearance = None if film is None else film.appearance_frame(classes * n, (height, width))
    _write(out, class_sheet(images, names), appearance, n, film)


def save_images(
    images: np.ndarray,
    out: Path,
    columns: int | None = None,
    film: Film | None = None,
    known: np.ndarray | None = None,
) -> None:
    """Write images [n, H, W] or [n, H, W, 3] uint8 as a sheet, a film, an array or a folder, by the name `out`.

    columns: of a sheet or a film, by default the nearest square. known: see `Film.appearance_frame`.
    """
    film, kind = check_out(out, film), out.suffix.lower()
    if kind == ".npy":
        data = encode_npy(images)
        write_atomically(out, lambda path: path.write_bytes(data))
    elif kind:
        n, height, width = images.shape[:3]
        appearance = None if film is None else film.appearance_frame(n, (height, width), known)
        _write(out, sheet(images, columns), appearance, columns, film)
    else:
        out.mkdir(exist_ok=True)
        for index, image in enumerate(images):
            (out / file_name(index, len(images))).write_bytes(encode_image(image, "png"))


def _write(out: Path, picture: Image.Image, appear: np.ndarray | None, columns: int | None, film: Film | None) -> None:
    """Write a sheet, or a film of it by the `appear` of its images; what is on the left of these is there from the
    start."""
    kind = out.suffix.lower()
    if film is None or appear is None:
        data = encode(picture, kind[1:])
    else:
        appear = np.asarray(sheet(appear, columns))
        appear = np.pad(appear, ((0, 0), (picture.width - appear.shape[1], 0)))
        data = encode_film(np.asarray(picture), appear, film, FILMS[kind])
    write_atomically(out, lambda path: path.write_bytes(data))


def file_name(index: int, n: int) -> str:
    """Return the name of one of `n` images in a folder; names sort as indices do."""
    return f"{index:0{len(str(n - 1))}}.png"
