"""How painted images leave in JSON and in events: file format, size, base64 or a data URL.

Images have the model's size, unless the client or the server's settings ask for `size_policy` resize: then each pixel
of the size asked for is the nearest one of the image, and the answer says so, as it does of uploads that were resized.
"""

import re
from base64 import b64encode
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any

import numpy as np

from scanline.model.config import ModelConfig
from scanline.model.images import film as films
from scanline.model.images import pictures
from scanline.model.images.film import Film
from scanline.model.images.film_files import encode as encode_film
from scanline.model.inputs import InvalidInput
from scanline.model.tasks.paint import PaintTask
from scanline.server.api.errors import quoted
from scanline.server.api.payload.schemas import OutputFields

MEDIA_TYPES = {**pictures.MEDIA_TYPES, **films.MEDIA_TYPES}  # of stills and films
URL_BY_DEFAULT = ("dall-e-2", "dall-e-3")  # as in the official API, whose other models answer with base64
SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")
MAX_SIDE = 2048  # pixels: a larger picture takes longer than 0.1 s to encode
MAX_PIXELS = 2**24  # of all images of a request: 10 of 1536x1024, the official API's most, have 0.94 of them
MAX_SHEET_PIXELS = {"webp": 2**23, "png": 2**24}  # of one call of Pillow, which takes up to 1 s; PNG's of one channel


@dataclass(frozen=True)
class ImageOutput:
    """What a request asks of the files of its images."""

    output_format: str
    model_size: str  # such as 28x28
    size: tuple[int, int] | None = None  # width and height, where they are not the model's
    as_url: bool = False
    uploaded: tuple[str, ...] = ()  # the sizes of the uploads that were resized
    film: Film | None = None  # of each image in JSON, of all together in a file
    columns: int | None = None  # of a sheet; None: nearly square

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of answers and events that say what was done; those of resizing only where it was."""
        sizes: dict[str, Any] = {"size": self.model_size}
        if self.size is not None:
            sizes = {"size": "{}x{}".format(*self.size), "resized_from": self.model_size}
        return {**sizes, **upload_fields(self.uploaded), "output_format": self.output_format}

    @property
    def takes_long(self) -> bool:
        """Whether the file of an image may take longer than a turn of the thread of short calls."""
        return self.film is not None or prod(self.size or ()) > pictures.MAX_THOROUGH_PIXELS

    @property
    def headers(self) -> dict[str, str]:
        """The headers that say of images and uploads that they were resized."""
        headers = {} if self.size is None else {"x-scanline-resized-from": self.model_size}
        return headers | upload_headers(self.uploaded)

    def resized(self, image: np.ndarray) -> np.ndarray:
        """Return an image [H, W] or [H, W, 3] uint8 of the size that the answer has."""
        return image if self.size is None else pictures.resized(image, self.size)

    def base64(self, image: np.ndarray, appearance: np.ndarray | None = None) -> str:
        """Return the file of an image of the model's size, as base64 text. appearance: its `Film.appearance_frame`."""
        if self.film is None or appearance is None:
            return pictures.to_base64(self.resized(image), self.output_format)
        file = encode_film(self.resized(image), self.resized(appearance), self.film, self.output_format)
        return b64encode(file).decode()

    def data(self, image: np.ndarray, appearance: np.ndarray | None) -> dict[str, str]:
        """Return the field of an answer's item that holds the image; see `base64`."""
        text = self.base64(image, appearance)
        if self.as_url:
            return {"url": f"data:{MEDIA_TYPES[self.output_format]};base64,{text}"}
        return {"b64_json": text}


def check_still(width: int, height: int, channels: int, kind: str, n: int) -> None:
    """Raise InvalidInput where a picture of a kind, a sheet of n images if n is not 1, would be too large."""
    films.check_sides(width, height, kind)
    most = MAX_SHEET_PIXELS[kind] // (channels if kind == "png" else 1)
    if n > 1 and width * height > most:
        reason = f"a {kind} sheet has at most {most:,} pixels, not {width}x{height}"
        raise InvalidInput(f"size: {reason}; ask for fewer or smaller images, or for JSON.", "size")


def image_metadata(task: PaintTask, row: int) -> dict[str, Any]:
    """Return the JSON fields of a finished image: its class, null where none was asked for, and its numbers. These are
    null where they are infinite, because the model rules out a known byte, and those of completions also where nothing
    was known."""
    is_completion, label = task.is_completion(row), task.label(row)
    return {
        "class": task.config.class_names[label - 1] if label else None,
        "bits_per_dim": finite_or_null(task.bits_per_dim[row]),
        "evidence_bits": finite_or_null(task.evidence_bits[row]) if is_completion else None,
        "effective_particles": finite_or_null(task.effective_particles[row]) if is_completion else None,
    }


def finite_or_null(number: float) -> float | None:
    """Return a number for JSON, which has none that are infinite or undefined."""
    return float(number) if isfinite(number) else None


def seed_headers(task: PaintTask) -> dict[str, str]:
    """Return the header with the seed of images that were drawn."""
    return {f"x-scanline-{name}": str(value) for name, value in task.drawn.items()}


def upload_fields(uploaded: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the field of an answer that says which sizes of uploads were resized; none where there are none."""
    return {"uploads_resized_from": list(uploaded)} if uploaded else {}


def upload_headers(uploaded: tuple[str, ...]) -> dict[str, str]:
    """Return the header that says the same of an answer that is a file."""
    return {"x-scanline-uploads-resized-from": ", ".join(uploaded)} if uploaded else {}


def output_of(fields: OutputFields, config: ModelConfig, n: int, resize: bool) -> ImageOutput:
    """Return the output of a request for `n` images; InvalidInput where its size is none, too large, or another than
    the model's without `resize`."""
    by_name = fields.response_format is None and fields.model in URL_BY_DEFAULT
    as_url = fields.response_format == "url" or by_name
    output = ImageOutput(fields.output_format, config.size, as_url=as_url)
    if fields.size in (None, "auto", config.size):
        return output
    if not resize:
        message = f"size must be auto or {config.size}, the model's own, not {quoted(fields.size)}"
        raise InvalidInput(f"{message}; size_policy: resize answers with another size.", "size")
    size = SIZE.fullmatch(fields.size)
    width, height = map(int, size.groups()) if size else (0, 0)
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        message = f"size must be auto or WIDTHxHEIGHT, each from 1 to {MAX_SIDE}, not {quoted(fields.size)}."
        raise InvalidInput(message, "size")
    if n * width * height > MAX_PIXELS:
        most = MAX_PIXELS // (width * height)
        raise InvalidInput(f"size: ask for at most {most} images of {width}x{height} in one request.", "size")
    return ImageOutput(fields.output_format, config.size, (width, height), as_url)
