"""How painted images leave: media type, file format, size, base64 or a data URL.

Images have the model's size, unless the client or the server's settings ask for `size_policy`
resize: then each pixel of the size asked for is the nearest one of the image, and the answer says
so, as it does of uploads that were resized.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any, Self

import numpy as np
from fastapi import Request

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.model_dir import model_name
from scanline.model.images import film as films
from scanline.model.images import pictures
from scanline.model.images.contact_sheet import grid
from scanline.model.images.film import Film
from scanline.model.images.film_files import encode as encode_film
from scanline.model.images.recipe import Recipe, of_image
from scanline.model.tasks.paint import PaintTask
from scanline.model.tasks.recipe import recipe_of
from scanline.server.api.base.errors import MAX_QUOTED, ApiError, quoted
from scanline.server.api.payload.accept import JSON, NPY, accepted, takes_json
from scanline.server.api.payload.schemas import OutputFields
from scanline.server.models.registry import ServedModel

MEDIA_TYPES = {**pictures.MEDIA_TYPES, **films.MEDIA_TYPES}  # of stills and films
KINDS = {media_type: kind for kind, media_type in MEDIA_TYPES.items()}
FILMS = tuple(films.MEDIA_TYPES.values())
PICTURES = tuple(dict.fromkeys(MEDIA_TYPES.values()))
# as in the official API, whose other models answer with base64
URL_BY_DEFAULT = ("dall-e-2", "dall-e-3")
SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")
MAX_SIDE = 2048  # pixels: a larger picture takes longer than 0.1 s to encode
# of all images of a request: 10 of 1536x1024, the official API's most, have 0.94 of them
MAX_PIXELS = 2**24
# of one call of Pillow, which takes up to 1 s; PNG's of one channel
MAX_SHEET_PIXELS = {"webp": 2**23, "png": 2**24}


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
    media_type: str = JSON  # of the answer
    recipe: Recipe | None = None  # of all images, which their files carry

    @property
    def is_json(self) -> bool:
        """Whether the answer has a file of each image; others are one
        file, whose images stand in a grid.
        """
        return self.media_type == JSON

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of answers and events that say what was done;
        those of resizing only where it was.
        """
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

    def of(self, task: PaintTask, model: ServedModel, uploaded: tuple[str, ...]) -> Self:
        """Return the output of a task that runs or has run, whose uploads have been read."""
        ready = model.engine.ready
        digest = "" if ready is None else ready.digest
        # The command line knows the directory's name, too.
        own_name = model_name(model.engine.options.directory)
        name = own_name if own_name in model.names else model.id
        recipe = recipe_of([task.request], task.config, name, digest)
        if recipe and self.size is not None:
            recipe["size"] = self.fields["size"]
        return replace(self, uploaded=uploaded, recipe=recipe)

    def base64(
        self,
        image: np.ndarray,
        appearance: np.ndarray | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the file of an image of the model's size, as base64 text. appearance: its
        `Film.appearance_frame`; metadata: its number and class, where it is finished."""
        recipe = None
        if metadata is not None and self.recipe is not None:
            recipe = of_image(self.recipe, metadata["index"], metadata["class"])
        if self.film is None or appearance is None:
            return pictures.to_base64(self.resized(image), self.output_format, recipe)
        file = encode_film(
            self.resized(image), self.resized(appearance), self.film, self.output_format, recipe
        )
        return b64encode(file).decode()

    def data(
        self, image: np.ndarray, appearance: np.ndarray | None, metadata: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the field of an answer's item that holds the image; see `base64`."""
        text = self.base64(image, appearance, metadata)
        if self.as_url:
            return {"url": f"data:{MEDIA_TYPES[self.output_format]};base64,{text}"}
        return {"b64_json": text}


def image_metadata(task: PaintTask, row: int) -> dict[str, Any]:
    """Return the JSON fields of a finished image: its class, null where none was asked for, and its
    numbers. These are null where they are infinite, because the model rules out a known byte, and
    those of completions also where nothing was known."""
    label = task.label(row)
    numbers = dict.fromkeys(task.evidence)
    if task.is_completion(row):
        numbers = {name: finite_or_null(values[row]) for name, values in task.evidence.items()}
    return {
        "class": task.config.class_names[label - 1] if label else None,
        "bits_per_dim": finite_or_null(task.bits_per_dim[row]),
        **numbers,
    }


def finite_or_null(number: float) -> float | None:
    """Return a number for JSON, which has none that are infinite or undefined."""
    return float(number) if isfinite(number) else None


def seed_headers(task: PaintTask) -> dict[str, str]:
    """Return the header with the seed of images that were drawn."""
    return {f"x-scanline-{name}": str(value) for name, value in task.drawn.items()}


def upload_fields(uploaded: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the field of an answer that says which sizes of uploads were
    resized; none where there are none.
    """
    return {"uploads_resized_from": list(uploaded)} if uploaded else {}


def upload_headers(uploaded: tuple[str, ...]) -> dict[str, str]:
    """Return the header that says the same of an answer that is a file."""
    return {"x-scanline-uploads-resized-from": ", ".join(uploaded)} if uploaded else {}


def output_of(request: Request, fields: OutputFields, task: PaintTask, resize: bool) -> ImageOutput:
    """Return how the images of a task leave, by the fields and Accept; InvalidInput where
    these do not fit each other, or what is asked for is too large, ApiError where Accept names
    no picture that is written here."""
    config = task.config
    n = len(task.shown)
    size = size_of(fields, config, n, resize)
    by_name = fields.response_format is None and fields.model in URL_BY_DEFAULT
    as_url = fields.response_format == "url" or by_name
    media_type = _media_type(request, fields)
    film = _film(fields, media_type)
    output = ImageOutput(
        fields.output_format,
        config.size,
        size,
        as_url,
        film=film,
        columns=task.columns,
        media_type=media_type,
    )
    if media_type == NPY:
        return output
    rows, columns = (1, 1) if output.is_json else grid(n, task.columns)
    image_width, image_height = size or (config.width, config.height)
    width = columns * image_width
    height = rows * image_height
    kind = fields.output_format if output.is_json else KINDS[media_type]
    if film:
        film.check_size(width, height, config.channels, kind, n if output.is_json else 1)
    else:
        _check_still(width, height, config.channels, kind, rows * columns)
    return output


def size_of(
    fields: OutputFields, config: ModelConfig, n: int, resize: bool
) -> tuple[int, int] | None:
    """Return width and height of `n` images where they are not the model's; InvalidInput where
    their size is none, too large, or another than the model's without `resize`."""
    if fields.size in (None, "auto", config.size):
        return None
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
        raise InvalidInput(
            f"size: ask for at most {most} images of {width}x{height} in one request.", "size"
        )
    return width, height


def _check_still(width: int, height: int, channels: int, kind: str, n: int) -> None:
    """Raise InvalidInput where a picture of a kind, a sheet of n images
    if n is not 1, would be too large.
    """
    films.check_sides(width, height, kind)
    most = MAX_SHEET_PIXELS[kind] // (channels if kind == "png" else 1)
    if n > 1 and width * height > most:
        reason = f"a {kind} sheet has at most {most:,} pixels, not {width}x{height}"
        raise InvalidInput(f"size: {reason}; ask for fewer or smaller images, or for JSON.", "size")


def _film(fields: OutputFields, media_type: str) -> Film | None:
    """Return the film to answer with, None for other answers; InvalidInput
    where only the fields ask for one.
    """
    kind = MEDIA_TYPES[fields.output_format] if media_type == JSON else media_type
    if kind in FILMS:
        is_always = kind not in pictures.MEDIA_TYPES.values()
        return fields.film or (Film() if is_always else None)
    instead = f"send Accept: {_any_of(FILMS)}"
    if media_type == JSON:
        instead += f", or output_format {_any_of(tuple(films.MEDIA_TYPES))}"
    fields.refuse_film(instead)
    return None


def _media_type(request: Request, fields: OutputFields) -> str:
    """Return the media type to answer with: the first of Accept that we
    have, or JSON if it names no picture.

    Browsers and Java name pictures in every request. They name pages first, and take any kind in
    the end: then no picture is asked for.
    """
    kinds = accepted(request)
    names_page_first = bool(kinds) and not kinds[0].startswith("image/")
    wants_picture = not (names_page_first and any(map(takes_json, kinds)))
    for kind in kinds:
        if kind == NPY or (wants_picture and kind in PICTURES):
            return kind
        if kind == "image/*" and wants_picture:
            named = MEDIA_TYPES[fields.output_format]
            return named if fields.film is None or named in FILMS else films.MEDIA_TYPES["apng"]
        if takes_json(kind):
            return JSON
    for kind in kinds:
        if kind.startswith("image/"):
            message = f"Accept: {kind[:MAX_QUOTED]} is not supported; use {_any_of(PICTURES)}."
            raise ApiError("not_acceptable", message)
    return JSON


def _any_of(kinds: Sequence[str]) -> str:
    return f"{', '.join(kinds[:-1])} or {kinds[-1]}"
