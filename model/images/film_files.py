"""The files of films: an animated GIF, WebP or PNG (APNG), through Pillow. The same images give the
same file, byte for byte, within one build of Pillow."""

import io

import numpy as np
from PIL import Image

from scanline.model.images import recipe as recipes
from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.images.film import Film
from scanline.model.images.pictures import MAX_THOROUGH_PIXELS, RUNS

COLOURS = 255  # of a GIF's 256; the last marks what does not change


def encode(
    picture: np.ndarray,
    appearance: np.ndarray,
    film: Film,
    kind: str,
    recipe: recipes.Recipe | None = None,
) -> bytes:
    """Return the file, of a kind of MEDIA_TYPES, of a finished picture [H, W] or [H, W, 3] uint8
    whose pixels appear in frames `appearance` [H, W], with its recipe in it."""
    height, width = appearance.shape
    film.check_size(width, height, picture.size // appearance.size, kind)
    palette = None
    blank: np.ndarray | int = UNPAINTED
    if kind == "gif":
        picture, palette, blank = _indexed(picture)
    scale = film.scale_of(width, height)
    frames = []
    for frame in range(film.frames):
        is_painted = _like(appearance <= frame, picture)
        shown = np.where(is_painted, picture, np.uint8(blank))
        frames.append(_enlarged(shown, scale, palette))
    first = frames[0]
    recipe = recipes.of_film(recipe, film, scale)
    options = {
        **recipes.options(recipe, kind),
        "save_all": True,
        "append_images": frames[1:],
        "duration": film.durations,
        "loop": 0,
    }
    out = io.BytesIO()
    match kind:
        case "gif":
            first.save(out, "GIF", palette=palette, optimize=True, **options)
        case "webp":  # a frame is what differs from the one before it; more effort saves little
            first.save(
                out,
                "WEBP",
                lossless=True,
                exact=True,
                method=2,
                quality=30,
                kmin=0,
                kmax=0,
                **options,
            )
        case _:
            first.save(out, "PNG", compress_type=RUNS, **options)
    return out.getvalue()


def _like(mask: np.ndarray, picture: np.ndarray) -> np.ndarray:
    """Return a mask [H, W] as it is broadcast over a picture's channels."""
    return mask if picture.ndim == 2 else mask[..., None]


def _enlarged(picture: np.ndarray, scale: int, palette: bytes | None) -> Image.Image:
    enlarged = Image.fromarray(picture.repeat(scale, axis=0).repeat(scale, axis=1))
    if palette is not None:
        enlarged.putpalette(palette)
    return enlarged


def _indexed(picture: np.ndarray) -> tuple[np.ndarray, bytes, int]:
    """Return a picture as indices [H, W] of at most COLOURS colours, their palette, and the index
    of UNPAINTED. Of 256 greys, 254 becomes white. Of more colours than fit, Pillow chooses."""
    if picture.ndim == 2:
        greys = np.array([*range(COLOURS - 1), 255], np.uint8)
        return np.minimum(picture, COLOURS - 1), bytes(greys.repeat(3)), UNPAINTED
    method = Image.Quantize.MEDIANCUT
    if picture.size > 3 * MAX_THOROUGH_PIXELS:
        method = Image.Quantize.FASTOCTREE
    few = Image.fromarray(picture).quantize(COLOURS - 1, method, dither=Image.Dither.NONE)
    colours = bytes(few.getpalette() or ())[: 3 * (COLOURS - 1)]
    return np.asarray(few), colours + bytes([UNPAINTED] * 3), len(colours) // 3
