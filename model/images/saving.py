"""Images written to a sheet, a film, an array or a folder, by the name of the output."""

import csv
import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scanline.model.base.atomic import write_file
from scanline.model.base.config import ModelConfig
from scanline.model.base.named_files import check_output, is_stream, read_file, write_output
from scanline.model.images.contact_sheet import class_sheet, gap_of, grid, sheet
from scanline.model.images.film import Film, check_sides
from scanline.model.images.film_files import encode as encode_film
from scanline.model.images.pictures import encode, encode_image, encode_npy
from scanline.model.images.recipe import Recipe, of_image, of_sheet

SHEETS = (".png", ".webp")
# the last two where a film is asked for
FILMS = {".gif": "gif", ".apng": "apng", ".webp": "webp", ".png": "apng"}
PICTURES = {*FILMS, ".jpg", ".jpeg", ".bmp"}  # that a folder of pictures may have
CLASSES = "classes.csv"
HEADINGS = ["image", "class"]
MAX_TABLE = 100_000_000  # bytes
FORM = re.compile(r"\.[a-z][a-z0-9]*")  # of a file's name; v1.2 and run.2026-11-27 are folders


def film_of(
    out: Path,
    film: bool = False,
    frames: int | None = None,
    seconds: float | None = None,
    scale: int | None = None,
) -> Film | None:
    """Return the film that is asked for, as `check_out` does; a `scale` alone is that of a .png or
    .webp sheet."""
    numbers: dict[str, Any] = {"frames": frames, "seconds": seconds, "scale": scale}
    sent = {name: number for name, number in numbers.items() if number is not None}
    asked = Film(**sent) if film or sent else None  # which checks the scale
    is_sheet = _form(out) in SHEETS and not film and sent.keys() <= {"scale"}
    return check_out(out, None if is_sheet else asked)


def check_out(out: Path, film: Film | None = None) -> Film | None:
    """Return the film that is written by that name, None where there is
    none; to be called before the work.

    ValueError for a name whose form is unknown, or is none of a film that is
    asked for, or whose folder is missing.
    """
    kind = _form(out)
    if kind and kind not in (*FILMS, ".npy"):
        raise ValueError(
            f"{out}: write a .png or .webp sheet, a .gif film, a .npy array or a folder"
        )
    if film is not None and kind not in FILMS:
        raise ValueError(f"{out}: a film or a scale needs a .gif, .webp, .png or .apng file")
    check_output(out, may_be_folder=not kind)
    if not kind and out.exists() and not out.is_dir():
        raise ValueError(
            f"{out} is no folder; give a folder, or a name that ends in .png, .webp, .gif or .npy"
        )
    if film is None and kind in FILMS and kind not in SHEETS:
        return Film()
    return film


def check_sheet(
    out: Path,
    film: Film | None,
    count: int,
    config: ModelConfig,
    columns: int | None = None,
    scale: int = 1,
) -> None:
    """Raise InvalidInput where a sheet of so many images of a model, or a film of it, would be too
    large; to be called before they are painted."""
    kind = _form(out)
    if kind not in FILMS:
        return
    rows, columns = grid(count, columns)
    width = columns * config.width
    height = rows * config.height
    if film is None:
        gap = gap_of(scale)
        check_sides(scale * width + columns * gap, scale * height + rows * gap, kind[1:])
    else:
        film.check_size(width, height, config.channels, FILMS[kind])


def check_folder(out: Path, count: int) -> None:
    """Raise ValueError where a folder has pictures that are none of `count` images, so
    that two runs would be mixed, or where the table of classes would replace another
    file; to be called before the work."""
    kind = _form(out)
    if kind in FILMS:
        return
    others = []
    if not kind and out.is_dir():
        names = {file_name(number, count) for number in range(count)}
        for path in out.iterdir():
            if path.suffix.lower() in PICTURES and path.name not in names:
                others.append(path.name)
    if others:
        others.sort()
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        raise ValueError(
            f"{out} has pictures of another run, {others[0]}{more}; give another folder, or empty it"
        )
    _read_classes(classes_file(out))


def save_classes(
    images: np.ndarray,
    names: Sequence[str],
    out: Path,
    film: Film | None = None,
    scale: int = 1,
    titles: Sequence[str] = (),
    known: np.ndarray | None = None,
    classes: Sequence[str | None] = (),
    recipe: Recipe | None = None,
) -> None:
    """Write images [K, n, H, W] or [K, n, H, W, 3] uint8 of K classes by the name `out`, as
    `save_images` does; a sheet or a film has a row for each class, after its name. titles: see
    `class_sheet`; known, classes, recipe: `save_images`."""
    film = check_out(out, film)
    kind = _form(out)
    if kind not in FILMS:
        flat = images.reshape(-1, *images.shape[2:])
        save_images(flat, out, classes=classes, recipe=recipe)
        return
    rows, n, height, width = images.shape[:4]
    appearance = None
    if film is not None:
        appearance = film.appearance_frame(rows * n, (height, width), known)
        scale = 1  # its own comes later
    if recipe:
        recipe = {**recipe, "scale": scale}
    _write(out, class_sheet(images, names, scale, titles), appearance, n, film, recipe)


def save_images(
    images: np.ndarray,
    out: Path,
    columns: int | None = None,
    film: Film | None = None,
    known: np.ndarray | None = None,
    numbers: Sequence[int] | None = None,
    count: int | None = None,
    scale: int = 1,
    classes: Sequence[str | None] = (),
    recipe: Recipe | None = None,
) -> None:
    """Write images [n, H, W] or [n, H, W, 3] uint8 as a sheet, a film, an
    array or a folder, by the name `out`.

    columns: of a sheet or a film, by default the nearest square. known: see `Film.appearance_frame`. numbers: of the
    images among `count`, which name the files of a folder; by default 0 to n - 1 of n. scale: of a sheet, see `sheet`.
    classes: of each image, where any is known; a folder and an array have them in a table, see `classes_file`.
    recipe: of all images, which the files carry.
    """
    film = check_out(out, film)
    kind = _form(out)
    if kind == ".npy":
        write_output(out, encode_npy(images))
        write_classes(out, list(map(str, range(len(images)))), classes)
    elif kind:
        n, height, width = images.shape[:3]
        appearance = None
        if film is not None:
            appearance = film.appearance_frame(n, (height, width), known)
            scale = 1  # its own comes later
        recipe = of_sheet(recipe, n, columns, scale)
        _write(out, sheet(images, columns, scale), appearance, columns, film, recipe)
    else:
        count = count or len(images)
        check_folder(out, count)
        out.mkdir(exist_ok=True)
        names = [file_name(number, count) for number in numbers or range(len(images))]
        labels = classes or [None] * len(images)
        for place, (name, image) in enumerate(zip(names, images, strict=True)):
            own_recipe = of_image(recipe, place, labels[place])
            write_file(out / name, encode_image(image, "png", own_recipe), durable=False)
        write_classes(out, names, classes)


def classes_file(out: Path) -> Path:
    """Return the table of the classes of the images in a folder or an array."""
    return out.with_suffix(f".{CLASSES}") if _form(out) else out / CLASSES


def write_classes(out: Path, names: Sequence[str], classes: Sequence[str | None]) -> None:
    """Write the table, with the classes of other images of the folder; where none is known, there
    is no table."""
    path = classes_file(out)
    table = {} if _form(out) else _read_classes(path)
    for name, label in zip(names, classes or [""] * len(names), strict=True):
        table[name] = label or ""
    if any(table.values()):
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEADINGS)
        for name in sorted(table, key=_in_order):
            writer.writerow([name, table[name]])
        write_file(path, text.getvalue())
    elif path.exists():
        path.unlink()


def _in_order(name: str) -> tuple[int, str]:
    """Return what sorts names as their numbers are."""
    return len(name), name


def _read_classes(path: Path) -> dict[str, str]:
    """Return the table; ValueError where the file is another one."""
    if not path.exists():
        return {}
    text = read_file(path, MAX_TABLE).decode(errors="replace")
    rows = list(csv.reader(text.splitlines()))
    if rows[:1] != [HEADINGS] or any(len(row) != len(HEADINGS) for row in rows):
        raise ValueError(
            f"{path} is not a table of classes that scanline wrote; give another output, or move it"
        )
    return {row[0]: row[1] for row in rows[1:]}


def _write(
    out: Path,
    picture: Image.Image,
    appearance: np.ndarray | None,
    columns: int | None,
    film: Film | None,
    recipe: Recipe | None,
) -> None:
    """Write a sheet, or a film of it by the `appearance` frames of its images; what is above and on
    the left of these is there from the start."""
    kind = _form(out)
    if film is None or appearance is None:
        data = encode(picture, kind[1:], recipe)
    else:
        frames = np.asarray(sheet(appearance, columns))
        above = picture.height - frames.shape[0]
        left = picture.width - frames.shape[1]
        frames = np.pad(frames, ((above, 0), (left, 0)))
        data = encode_film(np.asarray(picture), frames, film, FILMS[kind], recipe)
    write_output(out, data)


def _form(out: Path) -> str:
    """Return the suffix that says what to write: none is a folder, and a stream gets a .png."""
    if is_stream(out):
        return ".png"
    suffix = out.suffix.lower()
    if FORM.fullmatch(suffix) and not out.is_dir():
        return suffix
    return ""


def file_name(index: int, n: int) -> str:
    """Return the name of one of `n` images in a folder; names sort as indices do."""
    digits = len(str(n - 1))
    return f"{index:0{digits}}.png"
