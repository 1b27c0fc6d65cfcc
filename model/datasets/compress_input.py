"""What `scanline compress` is given, byte by byte, and its classes: picture files, a folder of
them, an array, an IDX file, MNIST or CIFAR-10.

A picture that the model's images cannot hold without a loss, as one with colours for a grey model,
is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scanline.model import datasets
from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.base.named_files import read_input
from scanline.model.datasets.files import DataError
from scanline.model.datasets.given_pictures import GivenPicture, given_pictures, is_many
from scanline.model.datasets.sources import Refused, files_below
from scanline.model.formats.code_file import SUFFIX
from scanline.model.images.picture_files import file_formats
from scanline.model.images.pictures import open_picture

EIGHT_BITS = ("1", "L", "P", "LA", "PA", "RGB", "RGBA")
SPLITS = ("test", "train")
# a PNG's first bytes, and the place of the bits of a channel
PNG = b"\x89PNG"
DEPTH = 24


@dataclass(frozen=True)
class CompressInput:
    """Images in the order of their names or of their file."""

    images: np.ndarray  # [n, N] uint8
    classes: tuple[str, ...] = ()  # the name of each one's class, where asked for
    refused: tuple[Refused, ...] = ()  # files of a folder that are no pictures, or broken ones


def input_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files at `paths`, but for files of codes, which folders of pictures may hold."""
    files: list[Path] = []
    for path in paths:
        files += files_below(path, []) if path.is_dir() else [path]
    return [file for file in files if file.suffix != SUFFIX]


def open_compress_input(
    paths: Sequence[Path], config: ModelConfig, split: str, classes: bool
) -> CompressInput:
    """Return the images at `paths`; DataError or InvalidInput with one sentence where they are not
    of the model's size, or would change. split: of MNIST or CIFAR-10. classes: with the names of
    their classes."""
    path = paths[0]
    name = datasets.set_in(path) if len(paths) == 1 and path.is_dir() else None
    if name is not None:
        return _published(name, path, config, split, classes)
    if classes and not all(map(is_many, paths)):
        raise DataError(
            "picture files have no classes of their own; give one of all, or a folder of subfolders"
        )
    return _pictures(paths, config, classes)


def _published(
    name: str, path: Path, config: ModelConfig, split: str, classes: bool
) -> CompressInput:
    images = datasets.load(name, path, split)
    rows = _of_model(images.reshape(-1, *datasets.SHAPES[name]), path, config)
    if not classes:
        return CompressInput(rows)
    names = datasets.CLASSES[name]
    labels = datasets.labels(name, path, split, images)
    return CompressInput(rows, tuple(names[label] for label in labels))


def _pictures(paths: Sequence[Path], config: ModelConfig, classes: bool) -> CompressInput:
    refused: list[Refused] = []
    pictures = given_pictures(paths, config, refused)
    names: list[str] = []
    for picture in pictures if classes else ():
        if len(picture.inside.parts) < 2:
            raise DataError(f"{picture.name} is in no subfolder of {paths[0]}, so it has no class")
        names.append(picture.inside.parts[0])
    images = np.stack([_exact(picture, config) for picture in pictures])
    return CompressInput(images, tuple(names), tuple(refused))


def _exact(picture: GivenPicture, config: ModelConfig) -> np.ndarray:
    """Return the bytes [N] uint8 of a picture."""
    source = picture.source
    if isinstance(source, np.ndarray):
        return _of_model(source[None], Path(picture.name), config)[0]
    data = read_input(source) if isinstance(source, Path) else source
    return _pixels(data, config, picture.name)


def _pixels(data: bytes, config: ModelConfig, param: str) -> np.ndarray:
    """Return the bytes [N] uint8 of a picture file's."""
    picture = open_picture(data, config, param, formats=file_formats())
    # Of a colour PNG with 16 bits a channel Pillow keeps 8.
    if data.startswith(PNG) and data[DEPTH] > 8:
        raise InvalidInput(
            f"{param} has {data[DEPTH]} bits a channel, of which 8 would be lost.", param
        )
    if picture.mode not in EIGHT_BITS:
        raise InvalidInput(
            f"{param} has pixels of mode {picture.mode}, which do not fit 8 bits.", param
        )
    if picture.has_transparency_data and np.asarray(picture.convert("RGBA"))[..., 3].min() < 255:
        raise InvalidInput(f"{param} has transparent pixels, which would be lost.", param)
    colours = np.asarray(picture.convert("RGB"))
    if config.channels == 3:
        return colours.reshape(-1)
    if (colours != colours[..., :1]).any():
        raise InvalidInput(f"{param} has colours, and the model's images are grey.", param)
    return colours[..., 0].reshape(-1)


def _of_model(images: np.ndarray, path: Path, config: ModelConfig) -> np.ndarray:
    """Return images [n, H, W] or [n, H, W, C] as [n, N]; DataError where they are not of the
    model's shape."""
    height, width = images.shape[1:3]
    channels = 1 if images.ndim == 3 else images.shape[3]
    if (height, width, channels) != (config.height, config.width, config.channels):
        kinds = {1: "grey", 3: "colour"}
        shape = f"{width}x{height} {kinds.get(channels, channels)}"
        needed = f"{config.size} {kinds[config.channels]}"
        raise DataError(f"{path} holds images of {shape}; the model needs {needed}")
    return images.reshape(len(images), -1)
