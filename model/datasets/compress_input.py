"""What `scanline compress` is given, byte by byte, and its classes: picture files, a folder of them, an array, an
IDX file, MNIST or CIFAR-10.

A picture that the model's images cannot hold without a loss, as one with colours for a grey model, is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scanline.model import datasets
from scanline.model.config import ModelConfig
from scanline.model.datasets import mnist
from scanline.model.datasets.files import DataError, unpacked
from scanline.model.datasets.folder import Refused, RefusedError, files_below, picture_bytes, printable
from scanline.model.datasets.source import mapped_array
from scanline.model.formats.code_file import SUFFIX
from scanline.model.images.pictures import JPEG, open_picture
from scanline.model.inputs import InvalidInput
from scanline.model.named_files import STREAM, read_input

EIGHT_BITS = ("1", "L", "P", "LA", "PA", "RGB", "RGBA")
SPLITS = ("test", "train")
PNG, DEPTH = b"\x89PNG", 24  # a PNG's first bytes, and the place of the bits of a channel
PICTURES = (PNG, JPEG, b"RIFF", b"BM")  # the first bytes of the formats that are read
BROKEN = "it is a broken picture"


@dataclass(frozen=True)
class CompressInput:
    """Images in the order of their names or of their file."""

    images: np.ndarray  # [n, N] uint8
    classes: tuple[str, ...] = ()  # the name of each one's class, where asked for
    refused: tuple[Refused, ...] = ()  # files of a folder that are no pictures, or broken ones

    @property
    def is_whole(self) -> bool:
        """Whether every picture of the folder is there."""
        return all(refused.reason != BROKEN for refused in self.refused)


def input_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files at `paths`, but for files of codes, which folders of pictures may hold."""
    files = [file for path in paths for file in (files_below(path, []) if path.is_dir() else [path])]
    return [file for file in files if file.suffix != SUFFIX]


def open_compress_input(paths: Sequence[Path], config: ModelConfig, split: str, classes: bool) -> CompressInput:
    """Return the images at `paths`; DataError or InvalidInput with one sentence where they are not of the model's
    size, or would change. split: of MNIST or CIFAR-10. classes: with the names of their classes."""
    path = paths[0]
    if len(paths) > 1 or path == STREAM or (path.suffix.lower() != ".npy" and path.is_file() and not _is_idx(path)):
        if classes:
            raise DataError("picture files have no classes of their own; give one of all, or a folder of subfolders")
        return CompressInput(np.stack([_pixels(read_input(each), config, str(each)) for each in paths]))
    name = datasets.set_in(path) if path.is_dir() else None
    if name is not None:
        return _published(name, path, config, split, classes)
    if path.is_dir():
        return _folder(path, config, classes)
    if classes:
        raise DataError(f"{path} has no classes; MNIST, CIFAR-10 and a folder of subfolders have")
    images = mapped_array(path) if path.suffix.lower() == ".npy" else mnist.images(path, unpacked(path))
    return CompressInput(_of_model(images, path, config))


def _published(name: str, path: Path, config: ModelConfig, split: str, classes: bool) -> CompressInput:
    images = datasets.load(name, path, split)
    given = _of_model(images.reshape(-1, *datasets.SHAPES[name]), path, config)
    if not classes:
        return CompressInput(given)
    labels = datasets.labels(name, path, split, images)
    return CompressInput(given, tuple(datasets.CLASSES[name][label] for label in labels))


def _folder(path: Path, config: ModelConfig, classes: bool) -> CompressInput:
    refused: list[Refused] = []
    images: list[np.ndarray] = []
    names: list[str] = []
    for file in files_below(path, refused):
        relative, data = file.relative_to(path), b""
        try:
            data = picture_bytes(file)
            images.append(_pixels(data, config, str(file)))
        except RefusedError as error:
            refused.append(Refused(printable(relative), str(error)))
            continue
        except InvalidInput as error:
            if error.code != "invalid_image":
                raise
            reason = BROKEN if data.startswith(PICTURES) else "it is no PNG, WebP, JPEG or BMP picture"
            refused.append(Refused(printable(relative), reason))
            continue
        if classes and len(relative.parts) < 2:
            raise DataError(f"{printable(relative)} is in no subfolder of {path}, so it has no class")
        names.append(relative.parts[0])
    if not images:
        raise DataError(f"{path} holds no picture that can be read")
    return CompressInput(np.stack(images), tuple(names) if classes else (), tuple(refused))


def _pixels(data: bytes, config: ModelConfig, param: str) -> np.ndarray:
    """Return the bytes [N] uint8 of a picture file's."""
    picture = open_picture(data, config, param)
    # Of a colour PNG with 16 bits a channel Pillow keeps 8.
    if data.startswith(PNG) and data[DEPTH] > 8:
        raise InvalidInput(f"{param} has {data[DEPTH]} bits a channel, of which 8 would be lost.", param)
    if picture.mode not in EIGHT_BITS:
        raise InvalidInput(f"{param} has pixels of mode {picture.mode}, which do not fit 8 bits.", param)
    if picture.has_transparency_data and np.asarray(picture.convert("RGBA"))[..., 3].min() < 255:
        raise InvalidInput(f"{param} has transparent pixels, which would be lost.", param)
    colours = np.asarray(picture.convert("RGB"))
    if config.channels == 3:
        return colours.reshape(-1)
    if (colours != colours[..., :1]).any():
        raise InvalidInput(f"{param} has colours, and the model's images are grey.", param)
    return colours[..., 0].reshape(-1)


def _of_model(images: np.ndarray, path: Path, config: ModelConfig) -> np.ndarray:
    """Return images [n, H, W] or [n, H, W, C] as [n, N]; DataError where they are not of the model's shape."""
    if images.reshape(*images.shape[:3], -1).shape[1:] != (config.height, config.width, config.channels):
        kinds = {1: "grey", 3: "colour"}
        given = 1 if images.ndim == 3 else images.shape[3]
        found = f"{images.shape[2]}x{images.shape[1]} {kinds.get(given, given)}"
        raise DataError(f"{path} holds images of {found}; the model needs {config.size} {kinds[config.channels]}")
    return images.reshape(len(images), -1)


def _is_idx(path: Path) -> bool:
    with path.open("rb") as file:
        begin = file.read(4)
    return begin == mnist.MAGIC.to_bytes(4) or (begin.startswith(b"\x1f\x8b") and "ubyte" in path.name)
