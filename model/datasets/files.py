"""Files of a published set, plain or gzipped, where people have them: in the directory itself, in torchvision's folder
`raw` or `NAME/raw`, or from Kaggle each in a folder of its own name; a hyphen or a dot before `idx`."""

import gzip
import zlib
from pathlib import Path

# What the images of a part are for, by its name in lower case
PARTS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
PARTS |= dict.fromkeys(("val", "valid", "validation", "dev"), "validation")


class DataError(ValueError):
    """A data file or directory is wrong; the message is one sentence for the user."""


def find(directory: Path, name: str) -> Path | None:
    """Return the path of `name` or `name`.gz in a directory, None where it is not there."""
    raw = [path for path in directory.glob("*/raw") if path.is_dir()]
    for folder in (directory, directory / "raw", *(raw if len(raw) == 1 else ())):  # of several sets none is meant
        for spelling in dict.fromkeys((name, name.replace("-idx", ".idx"))):
            for path in (folder / spelling, folder / f"{spelling}.gz"):
                for file in (path, path / path.name):
                    if file.is_file():
                        return file
    return None


def read(directory: Path, name: str) -> tuple[Path, bytes]:
    """Return the path and the unpacked bytes of `name` or `name`.gz in a directory; DataError where none is whole."""
    if (path := find(directory, name)) is None:
        raise DataError(f"{directory} has neither {name} nor {name}.gz")
    try:
        return path, gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path} is truncated or not a gzip file") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
