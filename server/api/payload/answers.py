"""Answers: painted images as JSON, a .npy array or a picture, and likelihoods as JSON.

A large answer is made a few milliseconds at a time, off the event loop, and sent while it is
made, no faster than its client reads: it is never in memory as a whole. Its job and
reservation are held until all of it is made.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from fastapi import Request
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Message, Send
from structlog.contextvars import bind_contextvars

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.images import pictures
from scanline.model.images.contact_sheet import sheet
from scanline.model.images.film import Film
from scanline.model.images.film_files import encode as encode_film
from scanline.model.images.recipe import of_sheet
from scanline.model.tasks.score import Scores
from scanline.server.api.base.cancellation import deadline, until_disconnect
from scanline.server.api.base.errors import ApiError, ClientGoneError
from scanline.server.api.payload import offload
from scanline.server.api.payload.accept import NPY
from scanline.server.api.payload.image_output import KINDS, ImageOutput
from scanline.server.api.payload.response_schemas import (
    DecodingsAnswer,
    ImageData,
    Likelihood,
    LikelihoodsAnswer,
)

NUMBER_BYTES = 20  # of a number in JSON
PART_BYTES = 65_536  # sent at once; an answer of fewer bytes is sent whole, with its length
# bytes of all images of a request for bits per byte: its answer has 20 characters for each
MAX_PER_PIXEL_BYTES = 2**22
ImageMetadata = dict[str, Any]  # the number of a finished image, and what `image_metadata` returns


async def send_answer(
    request: Request,
    send: Send,
    chunks: AsyncIterator[bytes],
    headers: dict[str, str],
    timeout: float,
) -> bytes | None:
    """Send an answer while it is made, and return its last bytes; None where the client has
    disconnected, or has not read it within `timeout`."""
    try:
        async with deadline(timeout), until_disconnect(request):
            return await _send(send, chunks, headers)
    except ClientGoneError:
        return None
    # it came too late to be sent: the connection is closed without the answer's end
    except ApiError as error:
        bind_contextvars(error=error.code)
        return None


async def _send(send: Send, chunks: AsyncIterator[bytes], headers: dict[str, str]) -> bytes:
    waiting = b""
    has_started = False
    async for chunk in chunks:
        waiting += chunk
        if len(waiting) > PART_BYTES:
            if not has_started:
                await send(start_message(headers))
                has_started = True
            await send({"type": "http.response.body", "body": waiting, "more_body": True})
            waiting = b""
    if not has_started:
        await send(start_message({**headers, "content-length": str(len(waiting))}))
    return waiting


def start_message(headers: dict[str, str]) -> Message:
    """Return the start of an answer with these headers."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": raw}


async def painted_chunks(
    answer: DecodingsAnswer,
    images: np.ndarray,
    metadata: Iterable[ImageMetadata],
    output: ImageOutput,
    known: np.ndarray | None = None,
) -> AsyncIterator[bytes]:
    """Yield the answer with images [n, H, W] or [n, H, W, 3] and the metadata of
    each; `answer` has all fields of the JSON but `data`. known: for films, the given
    pixels of completions, bool [n, H, W]."""
    size: int | None = max(images.size, len(images) * prod(output.size or ()))
    if output.is_json:
        steps = _json(answer, _image_data(images, known, metadata, output))
        size = None if output.takes_long else size
    elif output.media_type == NPY:
        steps = pictures.npy_chunks(images, output.resized)
    else:
        # Calls of Pillow, which release the interpreter's lock while they compress.
        film = None if output.film is None else partial(_film, images, known, output.film, output)
        yield await offload.run_long(film or partial(_sheet, images, output))
        return
    async for chunk in offload.in_chunks(steps, size):
        yield b"".join(chunk)


async def scored_chunks(
    answer: LikelihoodsAnswer,
    items: Iterable[Likelihood],
    scores: Scores,
    config: ModelConfig,
    per_pixel: bool,
) -> AsyncIterator[bytes]:
    """Yield the answer with the bits of every image, and with `per_pixel` those of every byte."""
    steps = _json(answer, _likelihoods(items, scores.bits if per_pixel else None, config))
    async for chunk in offload.in_chunks(steps, len(scores.bits) * config.bytes):
        yield b"".join(chunk)


async def listed_chunks(
    answer: BaseModel, items: Iterable[BaseModel], numbers: int
) -> AsyncIterator[bytes]:
    """Yield the answer with items that have so many numbers in all; `answer` has
    all fields of the JSON but `data`.
    """
    steps = _json(answer, (iter([item.model_dump_json().encode()]) for item in items))
    async for chunk in offload.in_chunks(steps, numbers * NUMBER_BYTES):
        yield b"".join(chunk)


def check_per_pixel(images: int, config: ModelConfig) -> None:
    """Raise InvalidInput where the answer with bits per byte would be too large."""
    most = max(1, MAX_PER_PIXEL_BYTES // config.bytes)
    if images > most:
        raise InvalidInput(
            f"per_pixel: send at most {most} images of {config.size} in one request.", "per_pixel"
        )


def _json(answer: BaseModel, items: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the JSON of an answer whose `data` is empty, with items, each of some
    chunks, in it. The quotes make sure that no text in the answer is taken for the empty
    list: in a text they are escaped."""
    before, after = answer.model_dump_json(exclude_unset=True).encode().split(b'"data":[]')
    yield before + b'"data":['
    for index, chunks in enumerate(items):
        if index:
            yield b","
        yield from chunks
    yield b"]" + after


def _sheet(images: np.ndarray, output: ImageOutput) -> bytes:
    resized = np.stack([output.resized(image) for image in images])
    kind = KINDS[output.media_type]
    return pictures.encode_sheet(resized, kind, output.columns, output.recipe)


def _film(images: np.ndarray, known: np.ndarray | None, film: Film, output: ImageOutput) -> bytes:
    appearance = film.appearance_frame(len(images), images.shape[1:3], known)
    picture, appear = (
        sheet(np.stack([output.resized(image) for image in kind]), output.columns)
        for kind in (images, appearance)
    )
    recipe = of_sheet(output.recipe, len(images), output.columns)
    kind = KINDS[output.media_type]
    return encode_film(np.asarray(picture), np.asarray(appear), film, kind, recipe)


def _image_data(
    images: np.ndarray,
    known: np.ndarray | None,
    metadata: Iterable[ImageMetadata],
    output: ImageOutput,
) -> Iterator[Iterator[bytes]]:
    film = output.film
    appearance = (
        [None] * len(images)
        if film is None
        else film.appearance_frame(len(images), images.shape[1:3], known)
    )
    for image, appear, fields in zip(images, appearance, metadata, strict=True):
        data = ImageData(**output.data(image, appear, fields), **fields)
        yield iter([data.model_dump_json(exclude_unset=True).encode()])


def _likelihoods(
    items: Iterable[Likelihood], bits: Sequence[np.ndarray] | None, config: ModelConfig
) -> Iterator[Iterator[bytes]]:
    """Yield the JSON of each image; infinite numbers, the bits of a byte
    that the model rules out, are null.
    """
    for item in items:
        data = item.model_dump_json(exclude={"per_pixel"}).encode()
        yield (
            iter([data])
            if bits is None
            else _with_rows(data, bits[item.index].reshape(config.image_shape))
        )


def _with_rows(data: bytes, rows: np.ndarray) -> Iterator[bytes]:
    """Yield the JSON object `data` with `per_pixel` added, row by row:
    a whole image may take too long.
    """
    yield data.removesuffix(b"}") + b',"per_pixel":['
    for index, row in enumerate(rows):
        if index:
            yield b","
        yield to_json(row.tolist(), inf_nan_mode="null")
    yield b"]}"
