"""Images that Python code gives, by one rule: picture files, pictures of
Pillow, arrays and tensors, one or many.

Arrays and tensors have the image's own shape, [H, W] or [H, W, 3], or channels first, [1, H, W] or
[3, H, W], or last, [H, W, 1], or are flat, [N], each with n before it or without. Values are whole
numbers from 0 to 255, or floats that are such numbers divided by 255, as torchvision has them.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.base.named_files import read_input
from scanline.model.images import pictures
from scanline.model.images.cleaning import Clean, Cleaning, read
from scanline.model.images.picture_files import file_formats
from scanline.model.images.pictures import pixels

Picture: TypeAlias = npt.ArrayLike | os.PathLike[str] | bytes | Image.Image
Pictures: TypeAlias = Picture | Sequence[Picture]
ROUNDING = 0.1  # of 255 times a float16 from 0 to 1


def read_images(
    images: Pictures, config: ModelConfig, photos: Cleaning | None = None
) -> np.ndarray:
    """Return images, [n, H, W] or [n, H, W, 3] uint8; InvalidInput where they are not of the
    model's shape. photos: pictures may have any size; see `pixels`."""
    picture = _opened(images, config, "images", photos is not None)
    if picture is not None:
        return pixels(picture, config, photos=photos).reshape(1, *config.image_shape)
    # A list of pictures; one of numbers is an image.
    if isinstance(images, list | tuple) and len(images) > 0:
        is_image = isinstance(images[0], int | float | list | tuple)
        if not is_image:
            return np.concatenate([read_images(image, config, photos) for image in images])
    return _read_array(images, config, "images", [None, *config.image_shape])


def read_completion(
    image: Picture,
    keep_rows: int | None,
    mask: Picture | None,
    config: ModelConfig,
    cleaning: Cleaning | None = None,
    clean: Clean = "off",
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes [N] uint8 of a picture to complete, read as `clean` says,
    and which of them are kept, [N] bool.

    The mask is that of keep_rows, of `mask` (bool [H, W] or a picture) or,
    without both, of the alpha of a picture.
    """
    if keep_rows is not None and mask is not None:
        raise InvalidInput("mask and keep_rows exclude each other; give one.", "keep_rows")
    picture = _opened(image, config, "image")
    if picture is None:
        values = _read_array(image, config, "image", [*config.image_shape])
    else:
        values = pixels(picture, config)
    if keep_rows is not None:
        kept = pictures.known_rows(keep_rows, config)
    elif mask is not None:
        kept = _known(mask, config)
    elif picture is not None:
        kept = pictures.known_by_alpha(picture, config)
    else:
        raise InvalidInput("Give keep_rows or mask.", "mask", "missing_parameter")
    cleaned = read(values.reshape(1, -1), config, cleaning, clean, is_whole=False)
    return cleaned.images[0], kept


def _opened(
    image: Pictures, config: ModelConfig, param: str, any_size: bool = False
) -> Image.Image | None:
    """Return a picture of the model's size, or of any, of a file, its bytes or of Pillow; None for
    arrays."""
    if isinstance(image, str | os.PathLike):
        data = read_input(Path(image))
        return pictures.open_picture(data, config, str(image), any_size, file_formats())
    if isinstance(image, bytes):
        return pictures.open_picture(image, config, param, any_size, file_formats())
    if not isinstance(image, Image.Image):
        return None
    with pictures.readable(param):
        image = pictures.upright(image)
        image.load()
    if not any_size and pictures.size_of(image) != config.size:
        raise pictures.wrong_size(image, config, param)
    return image


def _array(value: Any) -> np.ndarray:
    """Return the array of what numpy reads, or of a torch tensor on any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.is_floating_point():
            value = value.float()  # numpy has no bfloat16
    return np.asarray(value)


def _read_array(
    value: Any, config: ModelConfig, param: str, expected: list[int | None]
) -> np.ndarray:
    """Return images [n, H, W] or [n, H, W, 3] uint8, or one in its own shape where `expected` has
    no n."""
    array = _array(value)
    images = _in_shape(array, config)
    is_one = expected[0] is not None
    if images is None or array.dtype.kind not in "uif" or (is_one and len(images) > 1):
        shape = ", ".join("n" if size is None else str(size) for size in expected)
        raise InvalidInput(
            f"{param} must be uint8 [{shape}], not {array.dtype} {list(array.shape)}.", param
        )
    if images.dtype != np.uint8:
        scaled = images.astype(np.float64)
        if images.dtype.kind == "f":
            scaled *= 255
        whole = scaled.round()
        is_whole = (np.abs(scaled - whole) <= ROUNDING).all()
        if not is_whole or whole.min() < 0 or whole.max() > 255:
            reason = f"{param} must be whole numbers from 0 to 255, or floats that are such numbers divided by 255."
            raise InvalidInput(reason, param)
        images = whole.astype(np.uint8)
    return images[0] if is_one else images


def _in_shape(array: np.ndarray, config: ModelConfig) -> np.ndarray | None:
    """Return one or many images, [n, H, W] or [n, H, W, 3], of an array; None where its shape is
    another."""
    height = config.height
    width = config.width
    channels = config.channels
    channels_first = (channels, height, width)
    channels_last = (height, width, channels)
    if not array.size:
        return None
    for shape in (config.image_shape, channels_last, channels_first, (config.bytes,)):
        if array.shape[-len(shape) :] == shape and array.ndim <= len(shape) + 1:
            images = array.reshape(-1, *shape)
            if shape == channels_first:
                images = np.moveaxis(images, 1, -1)
            return images.reshape(-1, *config.image_shape)
    return None


def _known(mask: Picture, config: ModelConfig) -> np.ndarray:
    """Return the mask [N] bool of a picture, or of an array of pixels, True where one is kept."""
    param = str(mask) if isinstance(mask, str | os.PathLike) else "mask"
    picture = _opened(mask, config, param)
    if picture is not None:
        return pictures.known_by_picture(picture, config, param)
    array = _array(mask)
    size = (config.height, config.width)
    # a mask's pixels, as a file has them
    if array.dtype.kind in "ui" and np.isin(array, (0, 255)).all():
        array = array == 255
    if array.dtype != np.bool_ or array.shape not in (size, (1, *size), (*size, 1)):
        reason = f"mask must be bool {list(size)}, or uint8 of 0 and 255, not {array.dtype} {list(array.shape)}."
        raise InvalidInput(reason, "mask", "invalid_mask")
    if array.all():
        raise InvalidInput(
            "mask leaves nothing to paint: every pixel is kept.", "mask", "invalid_mask"
        )
    return np.repeat(array.reshape(-1), config.channels)
