"""Download of the published files from public mirrors, checked by checksum (pooch, of the `train`
extra)."""

from pathlib import Path

from scanline.model.base.extras import MissingExtraError
from scanline.model.datasets.files import DataError

MNIST_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}
CIFAR10_MIRROR = "https://www.cs.toronto.edu/~kriz/"
CIFAR10_FILES = {"cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a"}
SOURCES = {"mnist": (MNIST_MIRROR, MNIST_FILES), "cifar10": (CIFAR10_MIRROR, CIFAR10_FILES)}


def fetch(name: str, directory: Path) -> None:
    """Download the files of a set that `directory` lacks; DataError where that fails."""
    try:
        import pooch
    except ModuleNotFoundError:
        raise MissingExtraError("--fetch", "train") from None
    mirror, files = SOURCES[name]
    for file, checksum in files.items():
        try:
            pooch.retrieve(mirror + file, known_hash=checksum, fname=file, path=directory)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{mirror}{file} could not be downloaded: {reason}") from None
