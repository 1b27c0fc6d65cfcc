"""Images in a .npy file: uint8 [n, H, W] (grey) or [n, H, W, 3] (RGB), mapped into memory rather than read."""

from pathlib import Path

import numpy as np

from scanline.model.datasets.files import DataError


def load(path: Path) -> np.ndarray:
    """Return the array of the file as it is, not read yet; DataError in one sentence where it is not one of images."""
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
