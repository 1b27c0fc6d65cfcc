"""Files of a published set, plain or gzipped, where people have them: in the directory
itself, in torchvision's folder `raw` or `NAME/raw`, or from Kaggle each in a folder of its
own name; a hyphen or a dot before `idx`."""

import gzip
import zlib
from pathlib import Path

from PIL import Image

from scanline.model.base.named_files import FileError, check_file, read_file
from scanline.model.images.pictures import max_file_bytes

# pixels; a larger one is taken for a decompression bomb
LARGEST_PICTURE = Image.MAX_IMAGE_PIXELS or 2**26
LARGEST_FILE = max_file_bytes(LARGEST_PICTURE, 1)
MAX_UNPACKED = 1 << 30  # bytes: a gzip file of a megabyte may hold one of them
# a file's first bytes
IDX = b"\0\0\x08"
GZIP = b"\x1f\x8b"


class DataError(FileError):
    """A data file or directory is wrong."""


class RefusedError(ValueError):
    """The reason why one file is refused, and others are read."""


def beginning(path: Path, length: int) -> bytes:
    """Return a file's first bytes; none of what is no file, or cannot be read, as is said where it
    is read whole."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(length)
    except OSError:
        return b""


def find(directory: Path, name: str) -> Path | None:
    """Return the path of `name` or `name`.gz in a directory, None where it is not there."""
    raw = [path for path in directory.glob("*/raw") if path.is_dir()]
    # of several sets none is meant
    for folder in (directory, directory / "raw", *(raw if len(raw) == 1 else ())):
        for spelling in dict.fromkeys((name, name.replace("-idx", ".idx"))):
            for path in (folder / spelling, folder / f"{spelling}.gz"):
                for file in (path, path / path.name):
                    if file.is_file():
                        return file
    return None


def read(directory: Path, name: str) -> tuple[Path, bytes]:
    """Return the path and the unpacked bytes of `name` or `name`.gz in a directory; DataError where
    none is whole."""
    path = find(directory, name)
    if path is None:
        raise DataError(f"{directory} has neither {name} nor {name}.gz")
    return path, unpacked(path)


def unpacked(path: Path) -> bytes:
    """Return the bytes of a file, plain or gzipped; DataError where they are not whole, or too
    many."""
    try:
        if path.suffix.lower() != ".gz":
            return read_file(path)
        check_file(path)
        with gzip.open(path) as file:
            data = file.read(MAX_UNPACKED + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path} is truncated or not a gzip file") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_UNPACKED:
        raise DataError(f"{path} unpacks to more than {MAX_UNPACKED:,} bytes")
    return data
