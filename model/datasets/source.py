"""The data of `scanline train --data`, recognised by content: published files, folder, Parquet file
or .npy array."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from scanline.kernels import LARGEST_IMAGE
from scanline.model import datasets
from scanline.model.base.config import ModelConfig
from scanline.model.base.named_files import check_file
from scanline.model.datasets import folder
from scanline.model.datasets.arrays import as_images, is_array
from scanline.model.datasets.classes import Labels, Words, checked, of_folders
from scanline.model.datasets.files import DataError, RefusedError
from scanline.model.datasets.folder import Pictures
from scanline.model.datasets.parquet import is_parquet
from scanline.model.datasets.recognised import what_it_is
from scanline.model.datasets.sources import Refused, left_out
from scanline.model.datasets.split import Images, Subset, split_by_content
from scanline.model.datasets.split_folder import split_by_folders


@dataclass(frozen=True)
class ImageSet:
    """Train and test images [n, N] uint8 of one size, in raster order, channels innermost, and
    where they are from."""

    train: Images
    test: Images
    height: int
    width: int
    channels: int
    published: str | None  # the name of a published set, by the digest of its training images
    digest: str  # of the images, and of their labels where there are any: SHA-256, hexadecimal
    refused: tuple[Refused, ...] = ()
    duplicates: int = 0  # images that repeat another one and are in neither part
    labels: Labels | None = None
    is_folder: bool = False  # of pictures, read from all that is below it
    has_parts: bool = False  # of its own, which divide it into train and test
    name: str = ""  # that the set gives itself, and what it says of itself
    about: str = ""
    notes: tuple[str, ...] = ()  # sentences on the parts of a folder

    @property
    def size(self) -> str:
        """The size in words: 28x28 grey."""
        return f"{self.width}x{self.height} {'grey' if self.channels == 1 else 'RGB'}"


def open_data(
    path: Path,
    size: tuple[int, int] | None = None,
    grey: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    classes: bool = False,
) -> ImageSet:
    """Return the images at `path`; DataError with one sentence where there are none that a model
    can learn.

    size, (W, H), and grey are for a folder of pictures, whose files read and their total `progress`
    gets. classes: with the labels of the images; DataError where they have none.
    """
    # Published sets have sizes, colours and a split of their own.
    layout = datasets.set_in(path)
    of_pictures = _has_pictures(path)
    if (layout or not of_pictures) and path.exists() and (size or grey):
        raise DataError(f"--size and --grey are for a folder of pictures, not for {path}")
    if layout:
        return _published(layout, path, classes)
    if of_pictures:
        pictures = split_by_folders(folder.load(path, size, grey, progress), classes)
        return _of_pictures(path, pictures, classes)
    if path.suffix.lower() == ".npy":
        pictures = _of_array(path)
        if classes:
            raise DataError(
                f"{path} has no labels; classes are those of MNIST, of CIFAR-10 or of a folder"
                " whose subfolders are the classes"
            )
        return _of_pictures(path, pictures, classes)
    if path.is_file():
        what = what_it_is(path) or "neither a folder nor a .npy or .parquet file"
        raise DataError(f"{path} is {what}")
    raise DataError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")


def _of_pictures(path: Path, pictures: Pictures, classes: bool) -> ImageSet:
    """Return the set of the pictures at `path`, with labels for `classes`."""
    name, about = folder.about(path)
    words: Words = ()
    labels = np.empty(0, np.int64)
    if classes:
        pictures, words, labels = of_folders(pictures, path)
    # By content: of an image and its copies one stays, so that no test image is trained on, whatever
    # files are called.
    try:
        split = split_by_content(pictures.images, str(path), pictures.is_test)
    except DataError as error:
        if not pictures.refused:
            raise
        raise DataError(f"{error}; {left_out(pictures.refused)}") from None
    images = ImageSet(
        train=Subset(pictures.images, split.train),
        test=Subset(pictures.images, split.test),
        height=pictures.height,
        width=pictures.width,
        channels=pictures.channels,
        published=None,
        digest=split.digest,
        refused=pictures.refused,
        duplicates=split.duplicates + pictures.repeats,
        is_folder=path.is_dir(),
        has_parts=pictures.is_test is not None,
        name=name,
        about=about,
        notes=pictures.notes,
    )
    if not classes:
        return images
    return _labelled(images, checked(words, labels[split.train], labels[split.test], path))


def _of_array(path: Path) -> Pictures:
    """Return the images of a .npy file as pictures without names."""
    mapped = mapped_array(path)
    count, height, width = mapped.shape[:3]
    channels = 1 if mapped.ndim == 3 else 3
    return Pictures(mapped.reshape(count, -1), height, width, channels, refused=(), files=())


def _has_pictures(path: Path) -> bool:
    """Return whether a path is a folder of pictures or a file of them, but for a .npy file, which
    is mapped."""
    return path.is_dir() or is_parquet(path) or (path.suffix.lower() != ".npy" and is_array(path))


def open_for(
    config: ModelConfig,
    path: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
    *,
    with_classes: bool = True,
) -> ImageSet:
    """Return the images at `path` as a model of this configuration reads them, with labels where it
    knows classes, unless these are not wanted; DataError where they are of another size or other classes."""
    of_folder = _has_pictures(path) and datasets.set_in(path) is None
    size = (config.width, config.height) if of_folder else None
    grey = of_folder and config.channels == 1
    images = open_data(path, size, grey, progress, classes=with_classes and bool(config.classes))
    shape = (images.height, images.width, images.channels)
    if shape != (config.height, config.width, config.channels):
        raise DataError(f"{path} has pictures of {images.size}, and the model needs {config.size}")
    if images.labels is not None and images.labels.names != config.class_names:
        names = ", ".join(config.class_names)
        raise DataError(f"the classes of {path} are not the model's: {names}")
    return images


def mapped_array(path: Path) -> np.ndarray:
    """Return the images of a .npy file, uint8 [n, H, W] (grey) or [n, H, W, 3] (RGB), mapped into
    memory, not read."""
    try:
        check_file(path)
        return as_images(np.lib.format.open_memmap(path, mode="r"))
    except RefusedError as error:
        raise DataError(f"{path}: {error}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, OverflowError, MemoryError):
        # numpy's reasons are about its format: a wrong magic, objects that it would unpickle, a
        # size beyond the file
        raise DataError(f"{path} is truncated or not a .npy file of bytes") from None


def _published(name: str, path: Path, classes: bool) -> ImageSet:
    """Return a set in the files of the published set `name`, with its own split and, for `classes`,
    its labels. They mean that set's classes only where its training images are the published ones.
    """
    train = datasets.load(name, path, "train")
    test = datasets.load(name, path, "test")
    digest = sha256(train.tobytes()).hexdigest()
    is_published = digest == datasets.DIGESTS[name]
    height, width, channels = datasets.SHAPES[name]
    published = name if is_published else None
    images = ImageSet(train, test, height, width, channels, published, digest)
    if not classes:
        return images
    of_train = datasets.labels(name, path, "train", train, published=is_published)
    of_test = datasets.labels(name, path, "test", test, published=is_published)
    if is_published:
        words: Words = datasets.WORDS[name]
        # label 0 means no class
        labels = checked(words, of_train.astype(np.int64) + 1, of_test.astype(np.int64) + 1, path)
    else:
        numbers = np.unique(np.concatenate((of_train, of_test)))
        words = tuple((str(number),) for number in numbers)
        of_train = np.searchsorted(numbers, of_train) + 1
        of_test = np.searchsorted(numbers, of_test) + 1
        labels = checked(words, of_train, of_test, path)
    return _labelled(images, labels)


def _labelled(images: ImageSet, labels: Labels) -> ImageSet:
    """Return the images with their labels, which their digest then covers."""
    return replace(images, labels=labels, digest=labels.digest(images.digest))


def parse_size(text: str) -> tuple[int, int]:
    """Return (W, H) of `32` or `48x32`; DataError for anything else."""
    width, times, height = text.lower().partition("x")
    try:
        size = int(width), int(height if times else width)
    except ValueError:
        size = (0, 0)
    if min(size) < 1 or size[0] * size[1] > LARGEST_IMAGE:
        raise DataError(f"--size must be a number like 32 or WIDTHxHEIGHT like 48x32, not {text!r}")
    return size
