"""A folder of pictures, read recursively: any format that people have, and Parquet files, whose
pictures count as those of a folder.

A file that is not a picture, or is a broken or a hostile one, is refused with a reason, and the
others are read. A picture is its first frame, turned as its EXIF says, on white where it is
transparent, in 8 bits.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from scanline.kernels import LARGEST_IMAGE
from scanline.model.base.named_files import read_file
from scanline.model.datasets.files import LARGEST_PICTURE, DataError, RefusedError
from scanline.model.datasets.sources import (
    ABOUT,
    Refused,
    Source,
    count,
    longest_reason,
    picture_bytes,
    printable,
    sources,
)
from scanline.model.images.picture_files import SlowError, file_formats, open_file
from scanline.model.images.pictures import PixelsError, fitted, in_8_bits, upright

BROKEN = "it is a broken picture"
LONGEST_REASON = 120
WHITE = 281  # MaxSampleValue, a tag of TIFF
COLOURLESS = 8  # difference between the channels of a pixel that JPEG and WebP may add to grey
LONGEST_ABOUT = 1 << 20  # bytes
# After the metadata that a card on the Hugging Face Hub begins with: the name, and the text up to
# the next heading.
HEADING = re.compile(
    r"\A(?>(?:---\n.*?^---\n)?).*?^# ([^\n]+)\n((?:(?!#)[^\n]*\n)*)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Pictures:
    """The pictures of a folder in the order of their names."""

    images: np.ndarray  # [n, N] uint8 in raster order, channels innermost
    height: int
    width: int
    channels: int  # 1 where no picture has a colour
    refused: tuple[Refused, ...]
    files: tuple[Path, ...]  # of each picture, relative to the folder
    is_test: np.ndarray | None = None  # [n] bool, where the folder has parts of its own
    repeats: int = 0  # rows of Parquet files that have the picture of another row
    # the folders whose subfolders are classes to train on
    classes_in: frozenset[Path] = frozenset({Path()})
    notes: tuple[str, ...] = ()  # sentences on the parts of the folder


def load(
    folder: Path,
    size: tuple[int, int] | None = None,
    grey: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Pictures:
    """Read all pictures below `folder`; `progress` gets the files read and their total.

    size: (W, H) to which each picture is cropped, to its centre, and resized; without it, all must
    have one size. grey: convert to grey. DataError in one sentence where there is no picture, sizes
    differ or are too large.
    """
    accepted: list[Path] = []
    refused: list[Refused] = []
    total = count(folder)
    # The first picture that can be read decides the size; memory for all is reserved then, once.
    images = np.empty((0, 0), np.uint8)
    first: np.ndarray = np.empty(0, np.uint8)  # the first picture, [H, W] or [H, W, 3]
    repeats = 0
    rows: set[bytes] = set()  # digests of the pictures of Parquet files and their folders
    for done, (file, source) in enumerate(sources(folder, refused), start=1):
        name = printable(file)
        progress(done, total)
        if isinstance(source, bytes):
            # A small file may have one picture in many rows.
            digest = sha256(source + bytes(file.parent)).digest()
            if source and digest in rows:
                repeats += 1
                continue
            rows.add(digest)
        try:
            picture = decoded(source, size, grey)
        except RefusedError as error:
            refused.append(Refused(name, str(error)))
            continue
        if not accepted:
            first = picture
            images = _memory_for(total, first, folder / name)
        if picture.shape != first.shape:
            raise DataError(
                f"the pictures in {folder} differ in size: {printable(accepted[0])} is"
                f" {_size(first)} and {name} is {_size(picture)}; give --size, for example"
                f" --size {min(first.shape[:2])}"
            )
        images[len(accepted)] = picture.reshape(-1)
        accepted.append(file)
    if not accepted:
        if not refused:
            raise DataError(f"{folder} holds no files")
        raise DataError(f"{folder} holds no picture that can be read: {longest_reason(refused)}")
    # Pictures without a colour, as stored RGB too, become grey.
    images = images[: len(accepted)]
    channels = 1 if grey else 3
    if channels == 3 and _is_grey(images):
        images = np.ascontiguousarray(images[:, 1::3])
        channels = 1
    height, width = first.shape[:2]
    return Pictures(
        images, height, width, channels, tuple(refused), tuple(accepted), repeats=repeats
    )


def about(folder: Path) -> tuple[str, str]:
    """Return the name that a folder gives itself, the first heading of its README.md, and the text
    up to the next one; two empty strings where it says nothing. OSError where the file is too
    large."""
    path = folder / ABOUT
    text = read_file(path, LONGEST_ABOUT).decode(errors="replace") if path.is_file() else ""
    heading = HEADING.match(text + "\n")
    if heading is None:
        return "", ""
    return printable(Path(heading[1].strip())), heading[2].strip()


def decoded(source: Source, size: tuple[int, int] | None = None, grey: bool = False) -> np.ndarray:
    """Return the picture [H, W] or [H, W, 3] uint8; RefusedError where it cannot be decoded."""
    try:
        return _decode(source, size, grey)
    except (RefusedError, PixelsError, SlowError) as error:
        raise RefusedError(str(error)) from None
    # Pillow raises nearly anything on broken bytes; the run goes on without the file
    except Exception as error:
        raise RefusedError(_reason(error)) from None


def _decode(source: Source, size: tuple[int, int] | None, grey: bool) -> np.ndarray:
    """Return the picture [H, W] or [H, W, 3] uint8; any exception where it cannot be decoded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata, and about sizes, which are checked here
        if isinstance(source, np.ndarray):
            picture = in_8_bits(Image.fromarray(source), grey)
            return np.asarray(picture if size is None else fitted(picture, size))
        with open_file(picture_bytes(source), file_formats()) as opened:
            if opened.width * opened.height > LARGEST_PICTURE:
                size_read = f"{opened.width} x {opened.height}"
                raise RefusedError(
                    f"it has {size_read} pixels, more than the maximum of {LARGEST_PICTURE:,}"
                )
            if size is not None:
                # a JPEG is decoded at a fraction of its size
                opened.draft(None, (2 * max(size), 2 * max(size)))
            opened.load()
            # of a TIFF, one number for each channel
            stated = getattr(opened, "tag_v2", {}).get(WHITE)
            white = int(np.max(stated)) if stated else None
            picture = in_8_bits(upright(opened), grey, white)
    if size is not None:
        picture = fitted(picture, size)
    return np.asarray(picture)


def _reason(error: Exception) -> str:
    """Return in words why Pillow could not decode a file."""
    if isinstance(error, UnidentifiedImageError):
        return "it is not a picture"
    if isinstance(error, Image.DecompressionBombError):
        return f"its header declares more than the maximum of {LARGEST_PICTURE:,} pixels"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read: {error.strerror}"
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{BROKEN}: {text[:LONGEST_REASON]}"


def _memory_for(count: int, picture: np.ndarray, path: Path) -> np.ndarray:
    """Return memory for as many pictures as this one [count, N]; DataError where they are too large
    or too many."""
    if picture.size > LARGEST_IMAGE:
        raise DataError(
            f"{path} has {_size(picture)} pixels, too many for a model; give --size, for example"
            " --size 64"
        )
    try:
        return np.empty((count, picture.size), np.uint8)
    except MemoryError:  # a Parquet file may say that it has many
        raise DataError(
            f"there is no memory for {count:,} pictures of {picture.size:,} bytes"
        ) from None


def _size(picture: np.ndarray) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"


def _is_grey(images: np.ndarray) -> bool:
    """Return whether no pixel of RGB images [n, N] has a colour, beyond what lossy formats add to
    grey ones."""
    for image in images:
        pixels = image.reshape(-1, 3)
        if np.ptp(pixels, axis=1).max() > COLOURLESS:
            return False
    return True
