"""Jobs from checked fields: class, guidance and seed, then room, known bytes, slots. HTTP and websocket share them."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from PIL import Image
from structlog.contextvars import bind_contextvars

from scanline.model.config import ModelConfig
from scanline.model.defaults import Choice
from scanline.model.images.cleaning import Clean, read
from scanline.model.images.pictures import known_by_alpha, known_by_picture, known_rows, open_picture, pixels, size_of
from scanline.model.inputs import InvalidInput, checked_seed
from scanline.model.likelihood.classification import readings, views
from scanline.model.likelihood.marginal_likelihood import check_known
from scanline.model.sampling.messages import GenerateRequest, ScoreRequest
from scanline.server.api.payload import offload
from scanline.server.api.payload.schemas import (
    ClassificationRequest,
    EditRequest,
    LikelihoodRequest,
    MaskFields,
    ModelField,
    PaintFields,
    PictureFields,
)
from scanline.server.api.payload.uploads import uploads
from scanline.server.api.tracing import AnyJob, traced
from scanline.server.engine.job import Job
from scanline.server.engine.queue_limits import Reservation
from scanline.server.models.registry import ModelRegistry, ServedModel


def image_count(fields: PaintFields, models: ModelRegistry) -> int:
    """Return the images that a request asks for; InvalidInput where they are too many."""
    images = fields.n * (len(fields.image) if isinstance(fields, EditRequest) else 1)
    models.check_count(images, "n")
    return images


def paint_request(
    model: ServedModel,
    fields: PaintFields,
    n: int,
    client: str,
    *,
    stream: bool = False,
    provisional: bool = False,
    snapshot: tuple[int, int] | None = None,
) -> GenerateRequest:
    """Return a client's request for `n` images, without the known bytes; InvalidInput where a class is not known or the
    model cannot be guided."""
    bind_contextvars(model=model.id, images=n)
    return GenerateRequest(
        id=next(model.engine.request_ids),
        n=n,
        seed=checked_seed(fields.seed),
        **_choice(fields, model).to_dict(),
        stream=stream,
        provisional=provisional,
        snapshot=snapshot,
        client=client,
    )


@asynccontextmanager
async def painting(
    models: ModelRegistry,
    model: ServedModel,
    request: GenerateRequest,
    fields: ModelField,
    resize: bool = False,
) -> AsyncIterator[tuple[GenerateRequest, Job, tuple[str, ...]]]:
    """Yield the request with its known bytes, the job that paints it until it is done or the context is left, and the
    sizes of the uploads that were resized, for which `resize` allows others than the model's.

    EngineUnavailableError or QueueFullError where there is no room, InvalidInput where a picture is wrong.
    """
    engine, config = model.engine, model.config
    reader = _Reader(model, resize)
    with engine.reserve(len(request.indices), request.client) as reservation:
        # Room is taken before any picture is decoded: two slots for each guided image, else one.
        _reserve_slots(request, models, model, reservation)
        if isinstance(fields, MaskFields):
            size = None if resize else sum(map(len, uploads(fields)))
            sources = await offload.collect(_known_images(fields, reader), size)
            known, masks = zip(*sources, strict=True)
            if isinstance(fields, LikelihoodRequest):
                check_known(masks[0].count(1), "keep_rows" if fields.mask is None else "mask")
            request = replace(request, known=known, masks=masks)
            # Only the masks tell which images have particles.
            _reserve_slots(request, models, model, reservation)
        if request.codes is None:
            bind_contextvars(seed=request.seed)
        with traced(engine.run(Job(request, config.bytes), reservation)) as job:
            yield request, job, tuple(reader.resized)


@asynccontextmanager
async def scoring(
    model: ServedModel,
    fields: PictureFields,
    labels: Sequence[int],
    client: str,
    new_job: Callable[[ScoreRequest], AnyJob],
    resize: bool,
) -> AsyncIterator[tuple[AnyJob, list[bool], tuple[str, ...]]]:
    """Yield the job that scores each picture under each of the labels, and to classify it also its mirror image where
    the model was trained on those, until it is done or the context is left, whether each has noise, and the sizes that
    were resized; errors as of `painting`."""
    reader = _Reader(model, resize)
    bind_contextvars(model=model.id, images=len(fields.image))
    classified = isinstance(fields, ClassificationRequest)
    each = readings(model.config) if classified else len(labels)
    with model.engine.reserve(len(fields.image) * each, client) as reservation:
        size = None if resize else sum(map(len, fields.image))
        images = await offload.collect(_images(fields, reader), size)
        copies = tuple(view for seen, _, _ in images for view in seen for _ in labels)
        # A likelihood is of definite bytes.
        tolerances = tuple(tolerance for _, _, tolerance in images for _ in range(each)) if classified else ()
        number = next(model.engine.request_ids)
        given = tuple(labels) * (len(copies) // len(labels))
        request = ScoreRequest(number, copies, given, tolerances, client=client)
        with traced(model.engine.run(new_job(request), reservation)) as job:
            yield job, [noisy for _, noisy, _ in images], tuple(reader.resized)


def _reserve_slots(
    request: GenerateRequest, models: ModelRegistry, model: ServedModel, reservation: Reservation
) -> None:
    """Take room for the slots of a request's images that are not reserved yet.

    InvalidInput where the engine has too few slots for an image or the request needs more than one may have,
    QueueFullError where there is no room now.
    """
    request.check_slots(model.engine.max_slots_per_image)
    slots = request.slots
    if slots == reservation.images:
        return
    name = "guidance" if request.is_guided else "particles"
    if slots > models.max_images:
        each = ", two each unless it is 1," if request.is_guided else ""
        limit = f"above the limit of {models.max_images} per request"
        message = f"{name}: {request.n} images take {slots} slots{each} {limit}."
        raise InvalidInput(message, name)
    counted = "each guided image counted as two" if request.is_guided else "each particle counted as one"
    reservation.extend(slots - reservation.images, counted)
    bind_contextvars(**{name: request.guidance if request.is_guided else slots})


@dataclass
class _Reader:
    """Opens the uploads of a request, and collects the sizes of those that are not of the model's size."""

    model: ServedModel
    resize: bool  # whether these are read
    resized: dict[str, None] = field(default_factory=dict)  # in order, each once

    def open(self, data: bytes, param: str) -> Image.Image:
        picture = open_picture(data, self.model.config, param, self.resize)
        if size_of(picture) != self.model.config.size:
            self.resized[size_of(picture)] = None
        return picture


@contextmanager
def numbered(what: str, index: int, count: int) -> Iterator[None]:
    """Say which of several pictures or codes an InvalidInput is about."""
    try:
        yield
    except InvalidInput as error:
        if count == 1:
            raise
        raise InvalidInput(f"{what} {index + 1} of {count}: {error}", error.param, error.code) from None


def _images(fields: PictureFields, reader: _Reader) -> Iterator[tuple[tuple[bytes, ...], bool, int]]:
    """Yield each picture as it is read, N bytes each, to classify also mirrored where the model was trained so, whether
    it has noise, and its tolerance; InvalidInput where one is wrong."""
    config = reader.model.config
    for index, data in enumerate(fields.image):
        with numbered("Picture", index, len(fields.image)):
            sent = pixels(reader.open(data, "image"), config)
        cleaned = read(sent[None], config, reader.model.cleaning, fields.clean)
        seen = views(config, cleaned.images)[0] if isinstance(fields, ClassificationRequest) else cleaned.images
        yield tuple(view.tobytes() for view in seen), bool(cleaned.noisy[0]), int(cleaned.tolerances[0])


def _known_images(fields: MaskFields, reader: _Reader) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes and the mask of each partly known picture, N each; InvalidInput where one is wrong."""
    config, mask, mask_size = reader.model.config, None, reader.model.config.size
    if fields.mask is not None:
        opened = reader.open(fields.mask, "mask")
        mask, mask_size = known_by_picture(opened, config, "mask").tobytes(), size_of(opened)
        del opened
    elif fields.keep_rows is not None:
        mask = known_rows(fields.keep_rows, config).tobytes()
    for index, data in enumerate(fields.image):
        with numbered("Picture", index, len(fields.image)):
            known = _known_image(data, mask, mask_size, reader, fields.clean)
        yield known


def _known_image(data: bytes, mask: bytes | None, mask_size: str, reader: _Reader, clean: Clean) -> tuple[bytes, bytes]:
    """Return the bytes of a picture and its mask, by default from its alpha. What is decoded for that ends here."""
    config = reader.model.config
    picture = reader.open(data, "image")
    if mask_size not in (size_of(picture), config.size):
        reason = f"mask is {mask_size}; it must have the size of image, {size_of(picture)}, or of the model."
        raise InvalidInput(reason, "mask", "wrong_size")
    image = read(pixels(picture, config)[None], config, reader.model.cleaning, clean).images
    return image.tobytes(), known_by_alpha(picture, config).tobytes() if mask is None else mask


def facts(job: Job, index: int, config: ModelConfig) -> dict[str, Any]:
    """Return the JSON fields of a finished image: its class, null where none was asked for, and its numbers. These are
    null where they are infinite, because the model rules out a known byte, and those of completions also where nothing
    was known."""
    assert isinstance(job.request, GenerateRequest)
    is_completion = job.request.known_bytes_of(index) > 0
    label = job.labels.get(index) or job.request.label_of(index)
    return {
        "class": config.class_names[label - 1] if label else None,
        "bits_per_dim": finite_or_null(job.bits_per_dim[index]),
        "evidence_bits": finite_or_null(job.evidence_bits[index]) if is_completion else None,
        "effective_particles": finite_or_null(job.effective_particles[index]) if is_completion else None,
    }


def finite_or_null(number: float) -> float | None:
    """Return a number for JSON, which has none that are infinite or undefined."""
    return float(number) if isfinite(number) else None


def _choice(fields: PaintFields, model: ServedModel) -> Choice:
    """Return what a request paints with: what its fields say, or the model's defaults."""
    given = (model.config, fields.class_, fields.guidance, fields.temperature)
    prompt = fields.prompt or ""
    if isinstance(fields, EditRequest):
        return model.defaults.to_complete(*given, fields.particles, prompt=prompt)
    return model.defaults.to_paint(*given, prompt=prompt)
