"""Films of painting, in which images appear pixel by pixel, as they
were painted: what users may ask for.

Pixels are painted in raster order, so a film needs only the finished images: picture i of F shows
the first i / (F - 1) of the hidden pixels of each image, known pixels from the start, and a grey
in the place of the others. The files are film_files.py's: this module imports no Pillow, since
every command's help reads its limits.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

import numpy as np

from scanline.model.base.inputs import InvalidInput, number, whole_number

MEDIA_TYPES = {"gif": "image/gif", "webp": "image/webp", "apng": "image/apng"}
MIN_FRAMES = 2
MAX_FRAMES = 256
DEFAULT_FRAMES = 32
MIN_SECONDS = 0.1
MAX_SECONDS = 60.0
DEFAULT_SECONDS = 3.0
MAX_SCALE = 16
# by default a picture is enlarged at most so many times, and to so many pixels
DEFAULT_SCALE = 8
DEFAULT_SIDE = 512
MIN_FRAME_MS = 20  # browsers show shorter frames for 100 ms
LAST_MS = 2000  # that the finished picture stays
# pixels, of which files have room
MAX_SIDES = {"webp": 16_383, "gif": 65_535, "png": 2**31 - 1, "apng": 2**31 - 1}
MAX_BYTES = 2**25  # of all frames before compression: a second of work
MAX_FRAME_PIXELS = 2**20  # enlarged


@dataclass(frozen=True)
class Film:
    """How a film shows painting; InvalidInput where a number is outside its limits."""

    frames: int = DEFAULT_FRAMES
    seconds: float = DEFAULT_SECONDS  # until the finished picture, which stays for LAST_MS more
    # pixels of the film to one of the images, in width and height; None: see `scale_of`
    scale: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "frames", whole_number(self.frames, MIN_FRAMES, MAX_FRAMES, "frames")
        )
        if self.scale is not None:
            object.__setattr__(self, "scale", whole_number(self.scale, 1, MAX_SCALE, "scale"))
        object.__setattr__(self, "seconds", number(self.seconds, "seconds"))
        if not (isfinite(self.seconds) and MIN_SECONDS <= self.seconds <= MAX_SECONDS):
            reason = f"seconds must be from {MIN_SECONDS} to {MAX_SECONDS:g}, not {self.seconds}."
            raise InvalidInput(reason, "seconds")
        least = MIN_FRAME_MS * (self.frames - 1) / 1000
        if self.seconds < least:
            reason = f"seconds must be at least {least:g} for {self.frames} frames, {MIN_FRAME_MS / 1000} for each."
            raise InvalidInput(reason, "seconds")

    def scale_of(self, width: int, height: int) -> int:
        """Return how often a picture is enlarged: by default up to 8 times, while it has at most
        512 pixels a side."""
        return self.scale or max(1, min(DEFAULT_SCALE, DEFAULT_SIDE // max(width, height)))

    def check_size(self, width: int, height: int, channels: int, kind: str, count: int = 1) -> None:
        """Raise InvalidInput where `count` films of a kind, of pictures of so many pixels, would be
        too large."""
        scale = self.scale_of(width, height)
        width = width * scale
        height = height * scale
        check_sides(width, height, kind)
        most = (
            MAX_BYTES // (width * height * channels * count)
            if width * height <= MAX_FRAME_PIXELS
            else 0
        )
        if self.frames > most:
            films = "a film" if count == 1 else f"each of {count} films"
            limit = f"has at most {most} frames" if most >= MIN_FRAMES else "is too large"
            reason = f"{films} of {width}x{height} pixels {limit}; ask for fewer, a smaller scale or fewer images"
            raise InvalidInput(f"frames: {reason}.", "frames")

    @property
    def durations(self) -> list[int]:
        """The milliseconds of each frame, in hundredths of a second as GIF has them."""
        starts = [
            round(100 * self.seconds * frame / (self.frames - 1)) for frame in range(self.frames)
        ]
        return [10 * (end - start) for start, end in pairwise(starts)] + [LAST_MS]

    def appearance_frame(
        self, n: int, size: tuple[int, int], known: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the frame in which each pixel of n images appears, [n, H, W] uint8.

        size: height and width. known: bool [n, H, W], or [H, W] of all images, of
        pixels that are there from the start.
        """
        if known is None:
            known = np.zeros(size, np.bool_)
        hidden = ~np.broadcast_to(known, (n, *size)).reshape(n, -1)
        painted = hidden.cumsum(axis=1)
        total = hidden.sum(axis=1, keepdims=True)
        frames = -((-painted * (self.frames - 1)) // np.maximum(total, 1))  # rounded up
        return np.where(hidden, frames, 0).astype(np.uint8).reshape(n, *size)


def check_sides(width: int, height: int, kind: str) -> None:
    """Raise InvalidInput where a file of a kind has no room for a picture of so many pixels."""
    if max(width, height) > MAX_SIDES[kind]:
        reason = f"a {kind} of {width}x{height} pixels cannot be written, only of up to {MAX_SIDES[kind]:,} a side"
        raise InvalidInput(f"size: {reason}; ask for fewer or smaller images.", "size")
