"""The pictures that a command is given: files, and folders, tables and arrays of them, each with a
name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.base.named_files import STREAM, check_file
from scanline.model.datasets import parquet
from scanline.model.datasets.arrays import is_array
from scanline.model.datasets.files import DataError, RefusedError
from scanline.model.datasets.folder import BROKEN, decoded
from scanline.model.datasets.recognised import what_it_is
from scanline.model.datasets.sources import (
    UNREADABLE,
    Refused,
    Source,
    longest_reason,
    picture_bytes,
    printable,
    sources,
)
from scanline.model.images.picture_files import file_formats
from scanline.model.images.pictures import open_picture


@dataclass(frozen=True)
class GivenPicture:
    """A picture, its name as it is shown, and its path below the folder that was given."""

    name: str
    inside: Path
    source: Source


def is_many(path: Path) -> bool:
    """Return whether a path may have several pictures."""
    return path != STREAM and (path.is_dir() or parquet.is_parquet(path) or is_array(path))


def given_pictures(
    paths: Sequence[Path],
    config: ModelConfig,
    refused: list[Refused],
    any_size: bool = False,
) -> list[GivenPicture]:
    """Return the pictures at the paths, a folder's in the order of their names; what is none
    within a folder is added to `refused`. OSError, DataError or InvalidInput where there is none,
    or one is not of the model's size, unless files may have `any_size`."""
    pictures: list[GivenPicture] = []
    for path in paths:
        if is_many(path):
            readable = list(_readable(path, config, refused, any_size))
            if not readable:
                why = f": {longest_reason(refused)}" if refused else ""
                raise DataError(f"{path} holds no picture that can be read{why}")
            pictures += readable
            continue
        if path != STREAM:
            check_file(path)
            what = what_it_is(path)
            if what:
                raise DataError(f"{path} is {what}")
        pictures.append(GivenPicture(str(path), Path(path.name), path))
    return pictures


def is_whole(refused: Sequence[Refused]) -> bool:
    """Return whether all pictures are there, whatever else lay beside them."""
    return not any(file.reason.startswith((BROKEN, UNREADABLE)) for file in refused)


def _readable(
    path: Path, config: ModelConfig, refused: list[Refused], any_size: bool
) -> Iterator[GivenPicture]:
    folder = path if path.is_dir() else path.parent
    unnamed: list[Refused] = []
    for inside, source in sources(path, unnamed):
        name = printable(folder / inside)
        try:
            if not isinstance(source, bytes | Path):
                height, width = source.shape[:2]
                if (height, width) != (config.height, config.width):
                    needed = f"the model needs exactly {config.width}x{config.height}."
                    raise DataError(f"{name} is {width}x{height}; {needed}")
                yield GivenPicture(name, inside, source)
                continue
            open_picture(picture_bytes(source), config, name, any_size, file_formats())
        except RefusedError as error:
            refused.append(Refused(name, str(error)))
        except InvalidInput as error:
            if error.code != "invalid_image":
                raise
            refused.append(Refused(name, _why(source)))
        else:
            yield GivenPicture(name, inside, source)
    refused += [Refused(printable(folder / file.file), file.reason) for file in unnamed]


def _why(source: Source) -> str:
    """Return why a picture cannot be read."""
    try:
        decoded(source)
    except RefusedError as error:
        return str(error)
    return "it is an animation"
