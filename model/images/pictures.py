"""Pictures in and out: files to the bytes that a model reads, painted bytes to files.

A picture's size is checked before it is decoded: the model's, unless the caller resizes others.
Training reads pixels as uploads are read: upright by EXIF, on white where they are transparent, the
upper 8 bits of 16, resized alike. Both open files by `picture_files.open_file`.
"""

import base64
import binascii
import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageOps

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput, whole_number
from scanline.model.images import recipe as recipes
from scanline.model.images.cleaning import Cleaning
from scanline.model.images.contact_sheet import sheet
from scanline.model.images.picture_files import FORMATS, SlowError, open_file

EXACT_MODES = (
    "1",
    "L",
    "P",
    "LA",
    "PA",
    "La",
    "RGB",
    "RGBA",
    "RGBa",
    "RGBX",
    "CMYK",
    "YCbCr",
    "LAB",
    "HSV",
)
ORIENTATION = 0x0112  # EXIF's tag
UPRIGHT = {  # by EXIF's orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
BYTES_PER_PIXEL = 8  # of a file: a PNG of 16-bit RGBA that is not compressed
METADATA_BYTES = 2**18  # of a file: colour profile, EXIF and the like
# Of a picture that is resized to the model's size.
MAX_RESIZED_PIXELS = 2**22
MAX_RESIZED_SIDE = 2**12
MAX_REDUCED_PIXELS = 2**24  # of a JPEG, whose decoder makes fewer pixels: a telephone's photo
REDUCED_SIDE = 1024  # at least
MAX_RESIZED_BYTES = 8_000_000
COMPOSITED_PIXELS = 2**17  # at once: 2 milliseconds
# of a file that is written with the usual effort: more of noise take seconds so
MAX_THOROUGH_PIXELS = 2**18
URL_SAFE = str.maketrans("-_", "+/")
# Of data URLs; `unquote` takes 15 ms for 64 KB of signs.
ESCAPES = {
    "%2B": "+",
    "%2F": "/",
    "%3D": "=",
    "%2D": "-",
    "%5F": "_",
    "%0D": "",
    "%0A": "",
    "%20": "",
}
RUNS = 3  # of PNG: how zlib looks for repetitions, as among the pixels of an image that is enlarged
MEDIA_TYPES = {"png": "image/png", "webp": "image/webp"}


def max_file_bytes(width: int, height: int) -> int:
    """Return the bytes that a picture file of that size may have at most, metadata included."""
    return BYTES_PER_PIXEL * height * width + METADATA_BYTES


class PixelsError(ValueError):
    """Why pixels do not fit 8 bits."""


def open_picture(
    data: bytes,
    config: ModelConfig,
    param: str,
    resize: bool = False,
    formats: tuple[str, ...] = FORMATS,
) -> Image.Image:
    """Return the decoded upload, upright and of the model's size, or with `resize` of any that
    `pixels` and `known_by_picture` resize; an InvalidInput that names `param` otherwise."""
    expected = config.width, config.height
    with readable(param):
        picture = open_file(data, formats)
    if not resize and picture.size not in (expected, expected[::-1]):
        raise wrong_size(picture, config, param)
    if resize and MAX_RESIZED_PIXELS < picture.width * picture.height <= MAX_REDUCED_PIXELS:
        with readable(param):
            picture.draft(None, (REDUCED_SIDE, REDUCED_SIDE))
    has_many_pixels = picture.width * picture.height > MAX_RESIZED_PIXELS
    is_large = has_many_pixels or max(picture.size) > MAX_RESIZED_SIDE
    if is_large and max(picture.size) > max(expected):
        most = f"{MAX_RESIZED_PIXELS:,} pixels, {MAX_RESIZED_SIDE:,} a side,"
        reason = f"{param} is {size_of(picture)}; at most {most} are resized to the model's size."
        raise InvalidInput(reason, param, "wrong_size")
    if len(data) > max_file_bytes(*picture.size):
        raise InvalidInput(
            f"{param} is larger than {max_file_bytes(*picture.size)} bytes.", param, "too_large"
        )
    with readable(param):
        frames = getattr(picture, "n_frames", 1)
    if frames > 1:
        raise InvalidInput(
            f"{param} is an animation; send one still picture.", param, "invalid_image"
        )
    with readable(param):
        picture.load()
        if picture.mode == "P" and picture.palette is None:
            raise ValueError
        turned = upright(picture)
    if not resize and turned.size != expected:
        raise wrong_size(turned, config, param)
    return turned


def wrong_size(picture: Image.Image, config: ModelConfig, param: str) -> InvalidInput:
    """Return the error for a picture of another size than the model's."""
    return InvalidInput(
        f"{param} is {size_of(picture)}; the model needs exactly {config.size}.",
        param,
        "wrong_size",
    )


def size_of(picture: Image.Image) -> str:
    """Return a picture's size as clients write it."""
    return f"{picture.width}x{picture.height}"


def upright(picture: Image.Image) -> Image.Image:
    """Return a decoded picture as its EXIF turns it; as it is where that is broken or absent."""
    tiff = bytes(picture.info.get("exif") or b"").removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return picture
    try:
        (directory,) = struct.unpack_from(f"{order}I", tiff, 4)
        (count,) = struct.unpack_from(f"{order}H", tiff, directory)
        tags = tiff[directory + 2 : directory + 2 + 12 * count]
        whole_tags = tags[: 12 * (len(tags) // 12)]
        values = dict(struct.iter_unpack(f"{order}H6xH2x", whole_tags))
    except struct.error:
        return picture
    turn = UPRIGHT.get(values.get(ORIENTATION, 1))
    if turn is None:
        return picture
    return picture.transpose(turn)


def planes(picture: Image.Image, most: int | None = None) -> tuple[Image.Image, Image.Image | None]:
    """Return a decoded picture as RGB, of transparent pixels too, and its alpha as L, if it has
    one; PixelsError where its pixels do not fit.

    Of 16 bits the upper 8 count, unless the file states the value `most` of
    white: of 12 bits in 16, for instance.
    """
    if picture.mode.startswith("I"):
        values = np.asarray(picture).astype(np.int64)
        white = most or 0xFFFF
        if values.min() < 0 or values.max() > white:
            raise PixelsError(f"it has grey values beyond 0 to {white:,}")
        upper_8_bits = (values * 256) // (white + 1)
        grey = Image.fromarray(upper_8_bits.astype(np.uint8))
        if not picture.has_transparency_data:
            return grey.convert("RGB"), None
        is_opaque = values != picture.info["transparency"]
        return grey.convert("RGB"), Image.fromarray(np.where(is_opaque, 255, 0).astype(np.uint8))
    if picture.mode not in EXACT_MODES:
        raise PixelsError(f"it has pixels of mode {picture.mode}, which do not fit 8 bits")
    if not picture.has_transparency_data:
        return picture.convert("RGB"), None
    if picture.mode == "La":  # which Pillow converts to nothing else
        picture = picture.convert("LA")
    picture = picture.convert("RGBA")
    return picture.convert("RGB"), picture.getchannel("A")


def in_8_bits(picture: Image.Image, grey: bool, most: int | None = None) -> Image.Image:
    """Return a decoded picture as L or RGB, on white where it is transparent; see `planes`."""
    colours, alpha = planes(picture, most)
    if alpha is not None:
        colours = _on_white(colours, alpha)
    return colours.convert("L") if grey else colours


def _on_white(colours: Image.Image, alpha: Image.Image) -> Image.Image:
    """Return an RGB picture with this alpha on white. Pillow holds the interpreter's lock while it
    composites: some rows at a time."""
    picture = colours.convert("RGBA")
    picture.putalpha(alpha)
    rows = max(1, COMPOSITED_PIXELS // picture.width)
    for top in range(0, picture.height, rows):
        box = (0, top, picture.width, min(top + rows, picture.height))
        part = picture.crop(box)
        white = Image.new("RGBA", part.size, "white")
        picture.paste(Image.alpha_composite(white, part), box)
    return picture.convert("RGB")


@contextmanager
def readable(param: str) -> Iterator[None]:
    """Turn every exception of Pillow into one InvalidInput: there is
    no list of what its decoders raise.

    A MemoryError is one of them, where a file asks for more than there is.
    """
    try:
        yield
    except (SlowError, PixelsError) as error:
        raise InvalidInput(f"{param}: {error}.", param, "invalid_image") from None
    except Exception:
        reason = f"{param} is not a readable PNG, WebP, JPEG or BMP picture."
        raise InvalidInput(reason, param, "invalid_image") from None


def pixels(
    picture: Image.Image,
    config: ModelConfig,
    param: str = "image",
    photos: Cleaning | None = None,
) -> np.ndarray:
    """Return bytes [N] uint8 of a picture, converted to grey or RGB and resized as the model has
    it. photos: of a picture of another size the drawing on it, as this has it."""
    size = (config.width, config.height)
    with readable(param):
        converted = in_8_bits(picture, grey=config.channels == 1)
        if photos is not None and not is_enlarged(converted, size):
            drawing = photos.photo(converted, config)
            if drawing is not None:
                return drawing
        return np.asarray(fitted(converted, size)).reshape(-1)


def known_by_picture(
    picture: Image.Image, config: ModelConfig, param: str, is_own_alpha: bool = False
) -> np.ndarray:
    """Return the mask [N] bool, True where a byte is known: by alpha (0: paint) or, where a mask
    has none or 255 everywhere, by black (paint). is_own_alpha: the picture is the image itself."""
    with readable(param):
        colours, alpha = planes(picture)
        # An alpha of 255 everywhere says nothing: canvases write it.
        if alpha is not None and not is_own_alpha and alpha.getextrema() == (255, 255):
            alpha = None
    kind = "alpha"
    plane = alpha
    if plane is None:
        kind = "grey"
        plane = colours.convert("L")
    size = (config.width, config.height)
    values = np.asarray(ImageOps.fit(plane, size, Image.Resampling.NEAREST))
    if ((values != 0) & (values != 255)).any():
        raise InvalidInput(
            f"{param} has {kind} values between 0 (paint here) and 255 (keep).",
            param,
            "invalid_mask",
        )
    if values.all():
        raise InvalidInput(
            f"{param} leaves nothing to paint: no pixel has {kind} 0.", param, "invalid_mask"
        )
    return np.repeat(values.reshape(-1) == 255, config.channels)


def known_rows(rows: int, config: ModelConfig) -> np.ndarray:
    """Return the mask [N] bool that keeps the first `rows` rows: the paper's occlusion."""
    limit = config.height - 1
    rows = whole_number(
        rows, 0, limit, "keep_rows", f"from 0 to {limit}, so that something is left to paint"
    )
    return np.arange(config.bytes) < rows * config.width * config.channels


def known_by_alpha(picture: Image.Image, config: ModelConfig) -> np.ndarray:
    """Return the mask [N] bool from an image's own alpha."""
    if not picture.has_transparency_data:
        reason = "Send mask or keep_rows, or an image whose alpha is 0 where it is to be painted."
        raise InvalidInput(reason, "mask", "missing_parameter")
    return known_by_picture(picture, config, "image", is_own_alpha=True)


def from_base64(text: str, param: str) -> bytes:
    """Return the bytes of a base64 text, in one line or in several (RFC 2045), or of a data URL
    (RFC 2397). As others read it too: with - and _ for + and /, and with any padding or none."""
    if text[:5].lower() == "data:":
        head, _, text = text.partition(",")
        if "base64" not in [part.strip() for part in head.lower().split(";")[1:]]:
            raise InvalidInput(f"{param} is a data URL without ;base64.", param, "invalid_base64")
        for escape, character in ESCAPES.items():
            text = text.replace(escape, character).replace(escape.lower(), character)
    text = "".join(text.split()).rstrip("=").translate(URL_SAFE)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{param} is not valid base64.", param, "invalid_base64") from None


def fitted(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return a picture in 8 bits in another width and height: its centre, of the new proportions,
    each pixel the mean of those that it replaces (Lanczos). What `resized` has enlarged in its
    proportions becomes what it was."""
    if is_enlarged(picture, size):
        return picture.resize(size, Image.Resampling.NEAREST)
    return ImageOps.fit(picture, size, Image.Resampling.LANCZOS)


def is_enlarged(picture: Image.Image, size: tuple[int, int]) -> bool:
    """Return whether a picture is one of this width and height, or what `resized` makes of one in
    its proportions."""
    if picture.size == size:
        return True
    width, height = size
    if picture.width * height != picture.height * width or picture.width < width:
        return False
    nearest = picture.resize(size, Image.Resampling.NEAREST)
    enlarged = nearest.resize(picture.size, Image.Resampling.NEAREST)
    return enlarged.tobytes() == picture.tobytes()


def resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return an image [H, W] or [H, W, 3] uint8 in another width and height, each pixel the nearest
    of the image."""
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.NEAREST))


def encode(picture: Image.Image, output_format: str, recipe: recipes.Recipe | None = None) -> bytes:
    """Return a lossless file of the picture, with its recipe in it."""
    out = io.BytesIO()
    is_large = picture.width * picture.height > MAX_THOROUGH_PIXELS
    options = recipes.options(recipe, output_format)
    if output_format == "webp":
        if is_large:
            options |= {"method": 0, "quality": 0}
        picture.save(out, "WEBP", lossless=True, exact=True, **options)
    else:
        if is_large:
            options["compress_type"] = RUNS
        picture.save(out, "PNG", **options)
    return out.getvalue()


def encode_image(
    image: np.ndarray, output_format: str, recipe: recipes.Recipe | None = None
) -> bytes:
    """Return a lossless file of one image [H, W] or [H, W, 3] uint8."""
    return encode(Image.fromarray(image), output_format, recipe)


def to_base64(image: np.ndarray, output_format: str, recipe: recipes.Recipe | None = None) -> str:
    """Return the same file as base64 text."""
    return base64.b64encode(encode_image(image, output_format, recipe)).decode()


def encode_sheet(
    images: np.ndarray,
    output_format: str,
    columns: int | None = None,
    recipe: recipes.Recipe | None = None,
) -> bytes:
    """Return a lossless file of images [n, ...]: the picture itself for one, a contact sheet for
    more."""
    return encode(
        sheet(images, columns), output_format, recipes.of_sheet(recipe, len(images), columns)
    )


def npy_chunks(images: np.ndarray, resize: Callable[[np.ndarray], np.ndarray]) -> Iterator[bytes]:
    """Yield a .npy file of the images, one by one as `resize` returns them: all together may be
    large."""
    out = io.BytesIO()
    shape = resize(np.empty_like(images, shape=images.shape[1:])).shape
    header = np.lib.format.header_data_from_array_1_0(images) | {"shape": (len(images), *shape)}
    np.lib.format.write_array_header_1_0(out, header)
    yield out.getvalue()
    for image in images:
        yield resize(image).tobytes()


def encode_npy(images: np.ndarray) -> bytes:
    """Return a .npy file of the array."""
    out = io.BytesIO()
    np.save(out, images)
    return out.getvalue()
