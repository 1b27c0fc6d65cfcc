"""The data of `scanline train --data`: published files, a folder of pictures or a .npy array, recognised by content."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from scanline.kernels import LARGEST_IMAGE
from scanline.model import datasets
from scanline.model.datasets import cifar10, folder, mnist
from scanline.model.datasets.classes import Labels, Words, checked, of_folders
from scanline.model.datasets.files import DataError
from scanline.model.datasets.folder import Refused
from scanline.model.datasets.split import Images, Subset, split_by_content


@dataclass(frozen=True)
class ImageSet:
    """Train and test images [n, N] uint8 of one size, in raster order, channels innermost, and where they are from."""

    train: Images
    test: Images
    height: int
    width: int
    channels: int
    published: str | None  # the name of a published set, whose own split it has
    digest: str  # of the images, and of their labels where there are any: SHA-256, hexadecimal
    refused: tuple[Refused, ...] = ()
    duplicates: int = 0  # images that repeat another one and are in neither part
    labels: Labels | None = None

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
    """Return the images at `path`; DataError with one sentence where there are none that a model can learn.

    size, (W, H), and grey are for a folder of pictures, whose files read and their total `progress` gets. classes: with
    the labels of the images; DataError where they have none.
    """
    published = published_in(path)
    if (published or path.is_file()) and (size or grey):
        raise DataError(f"--size and --grey are for a folder of pictures, not for {path}")
    if published:
        return _published(published, path, classes)
    words: Words = ()
    label = np.empty(0, np.int64)  # of each image
    if path.is_dir():
        pictures = folder.load(path, size, grey, progress)
        if classes:
            pictures, words, label = of_folders(pictures, path)
        images, refused = pictures.images, pictures.refused
        shape = (pictures.height, pictures.width, pictures.channels)
    elif path.suffix.lower() == ".npy":
        mapped = _mapped_array(path)
        if classes:
            raise DataError(
                f"{path} has no labels; classes are those of MNIST, of CIFAR-10 or of a folder whose subfolders are"
                " the classes"
            )
        images, refused = mapped.reshape(len(mapped), -1), ()
        shape = (mapped.shape[1], mapped.shape[2], 1 if mapped.ndim == 3 else 3)
    elif path.exists():
        raise DataError(f"{path} is neither a folder nor a .npy file")
    else:
        raise DataError(f"{path} does not exist")
    split = split_by_content(images, str(path))
    sides = (Subset(images, split.train), Subset(images, split.test))
    whole = ImageSet(*sides, *shape, None, split.digest, refused, split.duplicates)
    return _labelled(whole, checked(words, label[split.train], label[split.test], path)) if classes else whole


def _mapped_array(path: Path) -> np.ndarray:
    """Return the images of a .npy file, uint8 [n, H, W] (grey) or [n, H, W, 3] (RGB), mapped into memory, not read."""
    try:
        images = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, OverflowError, MemoryError):
        # numpy's reasons are about its format: a wrong magic, objects that it would unpickle, a size beyond the file
        raise DataError(f"{path} is truncated or not a .npy file of bytes") from None
    shape = list(images.shape)
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and shape[3] != 3):
        raise DataError(f"{path} must hold uint8 [n, H, W] or [n, H, W, 3], not {images.dtype} {shape}")
    if not images.size:
        raise DataError(f"{path} holds no images: its shape is {shape}")
    return images


def _published(name: str, path: Path, classes: bool) -> ImageSet:
    """Return a published set with its own split and, for `classes`, its labels."""
    splits = {split: datasets.load(name, path, split) for split in ("train", "test")}
    digest = sha256(splits["train"].tobytes()).hexdigest()
    images = ImageSet(splits["train"], splits["test"], *datasets.SHAPES[name], name, digest)
    if not classes:
        return images
    train, test = (datasets.labels(name, path, *each).astype(np.int64) + 1 for each in splits.items())
    return _labelled(images, checked(datasets.WORDS[name], train, test, path))


def _labelled(images: ImageSet, labels: Labels) -> ImageSet:
    """Return the images with their labels, which their digest then covers."""
    return replace(images, labels=labels, digest=labels.digest(images.digest))


def published_in(directory: Path) -> str | None:
    """Return the name of the published set whose files are in a directory; None where it holds something else."""
    if any((directory / f"{name}{end}").is_file() for name, _ in mnist.FILES.values() for end in ("", ".gz")):
        return "mnist"
    if (directory / cifar10.TAR).is_file() or any(
        list((directory / at).glob("*_batch*.bin*")) for at in cifar10.FOLDERS
    ):
        return "cifar10"
    return None


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
