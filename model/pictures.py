"""Pictures in and out, for the API and the command line: uploads to bytes that the model reads, painted bytes to
files.

A picture is known by its own bytes, never by its name or declared type, and must have exactly the model's
size; it is measured before it is decoded.
"""

import base64
import binascii
import io
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, PngImagePlugin

from scanline.model.config import ModelConfig
from scanline.model.contact_sheet import sheet
from scanline.model.invalid_input import InvalidInput

FORMATS = ("PNG", "WEBP", "JPEG", "BMP")
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
PngImagePlugin.MAX_TEXT_CHUNK = 2**16  # bytes of a PNG's compressed remarks and colour profile, unpacked
PngImagePlugin.MAX_TEXT_MEMORY = 2**18  # and of all of them together
MEDIA_TYPES = {"png": "image/png", "webp": "image/webp"}


def open_picture(data: bytes, config: ModelConfig, param: str) -> Image.Image:
    """The decoded upload, of the model's size; a InvalidInput that names `param` otherwise."""
    with _readable(param):
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
    if picture.size != (config.width, config.height):
        found = f"{picture.width}x{picture.height}"
        raise InvalidInput(f"{param} is {found}; the model wants exactly {config.size}.", param, "wrong_size")
    if getattr(picture, "n_frames", 1) > 1:
        raise InvalidInput(f"{param} is an animation; one still picture is wanted.", param, "invalid_image")
    with _readable(param):
        picture.load()
        if picture.mode == "P" and picture.palette is None:
            raise ValueError
    if picture.mode not in MODES:
        reason = f"{param} has pixels of kind {picture.mode}; 8-bit grey or RGB, with or without alpha, is wanted."
        raise InvalidInput(reason, param, "invalid_image")
    return picture


@contextmanager
def _readable(param: str) -> Iterator[None]:
    """Pillow's many ways to say that a file is broken, as one."""
    try:
        yield
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        reason = f"{param} is not a readable PNG, WebP, JPEG or BMP picture."
        raise InvalidInput(reason, param, "invalid_image") from None


def pixels(picture: Image.Image, config: ModelConfig) -> np.ndarray:
    """Bytes [N] uint8 of a picture, converted to grey or RGB as the model has it."""
    return np.asarray(picture.convert("L" if config.channels == 1 else "RGB")).reshape(-1)


def known_by_picture(picture: Image.Image, config: ModelConfig, param: str) -> np.ndarray:
    """Mask [N] bool, True where a byte is known, by alpha (0 = paint) or, without alpha, by black = paint."""
    if picture.has_transparency_data:
        values = np.asarray(picture.convert("RGBA").getchannel("A"))
        kind = "alpha"
    else:
        values = np.asarray(picture.convert("L"))
        kind = "grey"
    if ((values != 0) & (values != 255)).any():
        raise InvalidInput(f"{param} has {kind} values between 0 (paint here) and 255 (keep).", param, "invalid_mask")
    if values.all():
        raise InvalidInput(f"{param} leaves nothing to paint: no pixel has {kind} 0.", param, "invalid_mask")
    return np.repeat(values.reshape(-1) == 255, config.channels)


def known_rows(rows: int, config: ModelConfig) -> np.ndarray:
    """Mask [N] bool that keeps the first `rows` rows: the paper's occlusion."""
    if rows >= config.height:
        limit = config.height - 1
        raise InvalidInput(f"keep_rows must be 0 to {limit}, so that something is left to paint.", "keep_rows")
    return np.arange(config.bytes) < rows * config.width * config.channels


def known_by_alpha(picture: Image.Image, config: ModelConfig) -> np.ndarray:
    """Mask [N] bool from an image's own alpha."""
    if not picture.has_transparency_data:
        reason = "Send mask or keep_rows, or an image whose alpha is 0 where it shall be painted."
        raise InvalidInput(reason, "mask", "missing_parameter")
    return known_by_picture(picture, config, "image")


def from_base64(text: str, param: str) -> bytes:
    """The bytes of a base64 text or a data URL."""
    if text.startswith("data:"):
        head, _, text = text.partition(",")
        if not head.endswith(";base64"):
            raise InvalidInput(f"{param} is a data URL without ;base64.", param, "invalid_base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{param} is not valid base64.", param, "invalid_base64") from None


def _encode(picture: Image.Image, output_format: str) -> bytes:
    """A lossless file of the picture."""
    out = io.BytesIO()
    if output_format == "webp":
        picture.save(out, "WEBP", lossless=True, exact=True)
    else:
        picture.save(out, "PNG")
    return out.getvalue()


def encode_image(image: np.ndarray, output_format: str) -> bytes:
    """A lossless file of one image [H, W] or [H, W, 3] uint8."""
    return _encode(Image.fromarray(image), output_format)


def to_base64(image: np.ndarray, output_format: str) -> str:
    """The same file as base64 text."""
    return base64.b64encode(encode_image(image, output_format)).decode()


def encode_sheet(images: np.ndarray, output_format: str, columns: int | None = None) -> bytes:
    """A lossless file of images [n, ...]: the picture itself for one, a contact sheet for more."""
    return _encode(sheet(images, columns), output_format)


def encode_npy(images: np.ndarray) -> bytes:
    """A .npy file of the array."""
    out = io.BytesIO()
    np.save(out, images)
    return out.getvalue()


def file_name(index: int, n: int) -> str:
    """Of one of `n` images in a folder, where names sort as indices do."""
    return f"{index:0{len(str(n - 1))}}.png"
