"""Reading of a data file, plain or gzipped."""

import gzip
import zlib
from pathlib import Path


class DataError(ValueError):
    """A data file or directory is wrong; the message is one sentence for the user."""


def read(directory: Path, name: str) -> tuple[Path, bytes]:
    """Return the path and the unpacked bytes of `name` or `name`.gz in a directory; DataError where none is whole."""
    for path in (directory / name, directory / f"{name}.gz"):
        if path.is_file():
            try:
                return path, gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            except (EOFError, zlib.error, gzip.BadGzipFile):
                raise DataError(f"{path} is truncated or not a gzip file") from None
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror}") from None
    raise DataError(f"{directory} has neither {name} nor {name}.gz")
