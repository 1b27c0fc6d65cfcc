"""A folder of pictures, read recursively: any format that people have, and Parquet files, whose pictures count as those
of a folder.

A file that is not a picture, or is a broken or a hostile one, is refused with a reason, and the others are read. A
picture is its first frame, turned as its EXIF says, on white where it is transparent, in 8 bits.
"""

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from scanline.kernels import LARGEST_IMAGE
from scanline.model.datasets import parquet
from scanline.model.datasets.files import LARGEST_FILE, LARGEST_PICTURE, PARTS, DataError, no_picture
from scanline.model.images.pictures import PixelsError, SlowError, fitted, in_8_bits, open_file, upright
from scanline.model.named_files import read_file

# What people have. Pillow reads more, by decoders that few use, by Ghostscript, and out of files of another format.
FORMATS = (
    *("PNG", "JPEG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "JPEG2000", "PPM", "TGA", "ICO", "QOI", "DDS"),
    *("PCX", "SGI"),
)
LONGEST_REASON = 120
WHITE = 281  # MaxSampleValue, a tag of TIFF
COLOURLESS = 8  # difference between the channels of a pixel that JPEG and WebP may add to grey
ABOUT = "README.md"  # what a folder says of itself: a heading, its name, and text
LONGEST_ABOUT = 1 << 20  # bytes
# After the metadata that a card on the Hugging Face Hub begins with: the name, and the text up to the next heading.
HEADING = re.compile(r"\A(?>(?:---\n.*?^---\n)?).*?^# ([^\n]+)\n((?:(?!#)[^\n]*\n)*)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Refused:
    """A file that was not used."""

    file: str  # relative to the folder
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


class RefusedError(ValueError):
    """The reason why one picture is refused."""


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


def load(
    folder: Path,
    size: tuple[int, int] | None = None,
    grey: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Pictures:
    """Read all pictures below `folder`; `progress` gets the files read and their total.

    size: (W, H) to which each picture is cropped, to its centre, and resized; without it, all must have one size.
    grey: convert to grey. DataError in one sentence where there is no picture, sizes differ or are too large.
    """
    accepted: list[Path] = []
    refused: list[Refused] = []
    files = [folder] if folder.is_file() else [file for file in files_below(folder, refused) if file != folder / ABOUT]
    if not files and not refused:
        raise DataError(f"{folder} holds no files")
    total = sum(parquet.rows_of(path) if path.suffix == parquet.SUFFIX else 1 for path in files)
    # The first picture that can be read decides the size; memory for all is reserved then, once.
    images = np.empty((0, 0), np.uint8)
    first: np.ndarray = np.empty(0, np.uint8)  # the first picture, [H, W] or [H, W, 3]
    repeats = 0
    rows: set[bytes] = set()  # digests of the pictures of Parquet files and their folders
    for done, (file, source) in enumerate(_sources(folder, files), start=1):
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
            picture = _decode(source, size, grey)
        except (RefusedError, PixelsError, SlowError) as error:
            refused.append(Refused(name, str(error)))
        except Exception as error:  # Pillow raises nearly anything on broken bytes; the run goes on without the file
            refused.append(Refused(name, _reason(error)))
        else:
            if not accepted:
                first = picture
                _check_size(folder / name, first)
                try:
                    images = np.empty((total, first.size), np.uint8)
                except MemoryError:  # a Parquet file may say that it has many
                    raise DataError(f"there is no memory for {total:,} pictures of {first.size:,} bytes") from None
            if picture.shape != first.shape:
                sizes = [f"{each.shape[1]}x{each.shape[0]}" for each in (first, picture)]
                raise DataError(
                    f"the pictures in {folder} differ in size: {printable(accepted[0])} is {sizes[0]} and {name} is"
                    f" {sizes[1]}; give --size, for example --size {min(first.shape[:2])}"
                )
            images[len(accepted)] = picture.reshape(-1)
            accepted.append(file)
    if not accepted:
        raise DataError(f"{folder} holds no picture that can be read: {refused[0]}")
    # Pictures without a colour, as stored RGB too, become grey.
    images = images[: len(accepted)]
    height, width = first.shape[0], first.shape[1]
    channels = 1 if grey else 3
    if channels == 3 and _is_grey(images):
        images, channels = np.ascontiguousarray(images[:, 1::3]), 1
    return Pictures(images, height, width, channels, tuple(refused), tuple(accepted), repeats=repeats)


def _sources(folder: Path, files: Sequence[Path]) -> Iterator[tuple[Path, Path | bytes]]:
    """Yield each picture's path relative to the folder, and its file or bytes."""
    for path in files:
        if path.suffix == parquet.SUFFIX:
            yield from parquet.pictures_of(path)
        else:
            yield path.relative_to(folder), path


def parts(pictures: Pictures) -> tuple[Pictures, tuple[str, ...]]:
    """Return the pictures of a folder whose subfolders are its training and test pictures by their names, with paths
    relative to those, and the subfolders' names; the pictures as they are, and none, of any other folder. The
    subfolders may be in one that holds nothing else, as archives unpack.

    Pictures to validate on are the test pictures where there are no others; otherwise they are refused.
    """
    wrapper, whole = Path(), pictures
    while len(tops := {file.parts[0] if len(file.parts) > 1 else "" for file in pictures.files}) == 1:
        (top,) = tops
        if not top or top.lower() in PARTS:
            break
        wrapper /= top
        pictures = replace(pictures, files=tuple(Path(*file.parts[1:]) for file in pictures.files))
    part_of = {top: PARTS.get(top.lower(), "") for top in tops}
    named = set(part_of.values())
    if "" in named or "train" not in named:
        return whole, ()
    test = "test" if "test" in named else "validation"
    part = np.array([part_of[file.parts[0]] for file in pictures.files])
    kept, refused = (part == "train") | (part == test), pictures.refused
    if not kept.all():
        unused = sorted(top for top in tops if part_of[top] not in ("train", test))
        refused += (Refused(", ".join(unused), "not used, since there are test pictures"),)
    files = tuple(Path(*file.parts[1:]) for file, keep in zip(pictures.files, kept, strict=True) if keep)
    tested = part[kept] == test if test in named else None  # else split by content
    chosen = replace(pictures, images=pictures.images[kept], files=files, refused=refused, is_test=tested)
    return chosen, tuple(sorted(str(wrapper / top) for top in tops if part_of[top] in ("train", test)))


def about(folder: Path) -> tuple[str, str]:
    """Return the name that a folder gives itself, the first heading of its README.md, and the text up to the next one;
    two empty strings where it says nothing. OSError where the file is too large."""
    path = folder / ABOUT
    text = read_file(path, LONGEST_ABOUT).decode(errors="replace") if path.is_file() else ""
    found = HEADING.match(text + "\n")
    return (printable(Path(found[1].strip())), found[2].strip()) if found else ("", "")


def passed_over(name: str) -> bool:
    """Return whether a file or folder is not looked at: a hidden one, or what macOS adds to its archives."""
    return name.startswith(".") or name == "__MACOSX"


def files_below(folder: Path, refused: list[Refused]) -> Iterator[Path]:
    """Yield the files below a folder, in the order of their names; links to folders are followed, each folder once.

    Folders that cannot be listed, and links to one that is read elsewhere, are added to `refused`.
    """
    read = {_identity(folder)}

    def is_new(path: Path) -> bool:
        identity = _identity(path)
        if identity in read:
            refused.append(Refused(printable(path.relative_to(folder)), "it links to a folder that is read already"))
            return False
        read.add(identity)
        return True

    def refuse(error: OSError) -> None:
        refused.append(Refused(printable(Path(error.filename).relative_to(folder)), _reason(error)))

    for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        folders[:] = [name for name in sorted(folders) if not passed_over(name) and is_new(Path(parent, name))]
        for name in sorted(names):
            if not passed_over(name):
                yield Path(parent, name)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def printable(path: Path) -> str:
    """Return a file's name as it can be printed on one line, whatever its bytes are."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(path))


def picture_bytes(source: Path | bytes) -> bytes:
    """Return the bytes of a picture; RefusedError for a file that no picture can be."""
    if isinstance(source, Path):
        if not source.is_file():  # a pipe would be waited for
            raise RefusedError("it is not a regular file" if source.exists() else "it is a link to nothing")
        if source.stat().st_size > LARGEST_FILE:
            raise RefusedError(f"it has more than the maximum of {LARGEST_FILE:,} bytes")
        path, source = source, source.read_bytes()
        if what := no_picture(path, source[:4]):
            raise RefusedError(f"it is {what}")
    if not source:
        raise RefusedError("it is empty")
    return source


def _decode(source: Path | bytes, size: tuple[int, int] | None, grey: bool) -> np.ndarray:
    """Return the picture [H, W] or [H, W, 3] uint8; any exception where it cannot be decoded."""
    Image.init()  # registers the formats
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata, and about sizes, which are checked here
        with open_file(picture_bytes(source), FORMATS) as opened:
            if opened.width * opened.height > LARGEST_PICTURE:
                size_read = f"{opened.width} x {opened.height}"
                raise RefusedError(f"it has {size_read} pixels, more than the maximum of {LARGEST_PICTURE:,}")
            if size is not None:
                opened.draft(None, (2 * max(size), 2 * max(size)))  # a JPEG is decoded at a fraction of its size
            opened.load()
            stated = getattr(opened, "tag_v2", {}).get(WHITE)  # of a TIFF, one number for each channel
            picture = in_8_bits(upright(opened), grey, int(np.max(stated)) if stated else None)
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
    return f"it is a broken picture: {text[:LONGEST_REASON]}"


def _check_size(path: Path, picture: np.ndarray) -> None:
    if picture.size > LARGEST_IMAGE:
        height, width = picture.shape[:2]
        raise DataError(f"{path} has {width}x{height} pixels, too many for a model; give --size, for example --size 64")


def _is_grey(images: np.ndarray) -> bool:
    """Return whether no pixel of RGB images [n, N] has a colour, beyond what lossy formats add to grey ones."""
    pixels = (image.reshape(-1, 3) for image in images)
    return all((image.max(axis=1) - image.min(axis=1)).max() <= COLOURLESS for image in pixels)
