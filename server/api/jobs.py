"""From checked fields to a job: which seed, which class, which bytes are known, how many slots. HTTP and websocket
share it.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import isfinite
from typing import Any

from structlog.contextvars import bind_contextvars

from scanline.model.class_names import label_asked_for, label_of_prompt
from scanline.model.config import ModelConfig
from scanline.model.inputs import (
    TOO_FEW_SLOTS_TO_GUIDE,
    TOO_MANY_PARTICLES,
    InvalidInput,
    check_guidance,
    checked_seed,
)
from scanline.model.pictures import known_by_alpha, known_by_picture, known_rows, open_picture, pixels
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.api.errors import quoted
from scanline.server.api.payload import offload
from scanline.server.api.payload.schemas import EditRequest, MaskFields, PaintFields
from scanline.server.api.payload.uploads import uploads
from scanline.server.api.tracing import traced
from scanline.server.engine.job import Job
from scanline.server.engine.queue_limits import Reservation
from scanline.server.process.registry import ModelRegistry, ServedModel


def image_count(fields: PaintFields, models: ModelRegistry, model: ServedModel) -> int:
    """Return the images that a request asks for; InvalidInput where they are too many, or of another size."""
    images = fields.n * (len(fields.image) if isinstance(fields, EditRequest) else 1)
    models.check_count(images, "n")
    if fields.size not in (None, "auto", model.config.size):
        message = f"size must be auto or {model.config.size}, the size of {model.id}, not {quoted(fields.size)}."
        raise InvalidInput(message, "size")
    return images


@asynccontextmanager
async def painting(
    models: ModelRegistry,
    model: ServedModel,
    fields: PaintFields,
    images: int,
    client: str,
    *,
    stream: bool = False,
    provisional: bool = False,
    snapshot: tuple[int, int] | None = None,
) -> AsyncIterator[tuple[GenerateRequest, Job]]:
    """A client's request for `images` images, and the job that paints them until it is done or the context is left.

    Room is taken before any picture is decoded. EngineUnavailableError or QueueFullError where there is none,
    InvalidInput where a picture is wrong, a class is not known or the model cannot be guided.
    """
    bind_contextvars(model=model.id, images=images)
    engine, config = model.engine, model.config
    label = _label(fields, config)
    check_guidance(fields.guidance, label, config)
    request = GenerateRequest(
        id=next(engine.request_ids),
        images=images,
        seed=checked_seed(fields.seed),
        temperature=fields.temperature,
        label=label,
        guidance=fields.guidance,
        stream=stream,
        provisional=provisional,
        snapshot=snapshot,
        client=client,
    )
    with engine.reserve(images, client) as reservation:
        if request.is_guided:  # two slots for each image, whatever its mask is
            request = with_room(request, models, model, reservation)
        if isinstance(fields, EditRequest):
            sources = await offload.collect(known_pictures(fields, config), sum(map(len, uploads(fields))))
            known, masks = zip(*sources, strict=True)
            request = replace(request, known=known, masks=masks)
            if not request.is_guided:
                request = with_room(replace(request, particles=fields.particles), models, model, reservation)
        bind_contextvars(seed=request.seed)
        with traced(engine.run(Job(request, config.bytes), reservation)) as job:
            yield request, job


def with_room(
    request: GenerateRequest, models: ModelRegistry, model: ServedModel, reservation: Reservation
) -> GenerateRequest:
    """Return the request once there is room for all slots of its images: two for a guided image, else one for each
    particle.

    The reservation has room for one slot of each image; only the masks say how many particles there are. InvalidInput
    where the engine has too few slots for an image or the request needs more than one may have, QueueFullError where
    there is no room now.
    """
    sources = max(1, len(request.masks))
    copies = request.images // sources
    each = [request.slots_of(source * copies) for source in range(sources)]  # slots of an image of each picture
    most, slots, engine_slots = max(each), copies * sum(each), model.engine.max_slots_per_image
    if most == 1:
        return replace(request, particles=1)
    limit = f"the limit of {models.max_images} per request."
    if request.is_guided:
        if most > engine_slots:
            raise InvalidInput(TOO_FEW_SLOTS_TO_GUIDE, "guidance", "guidance_not_supported")
        if slots > models.max_images:
            message = f"guidance: {request.images} images, each counted as two, exceed {limit}"
            raise InvalidInput(message, "guidance")
        reservation.extend(slots - request.images, "each guided image counted as two")
        bind_contextvars(guidance=request.guidance)
        return request
    if most > engine_slots:
        raise InvalidInput(TOO_MANY_PARTICLES.format(engine_slots, most), "particles")
    if slots > models.max_images:
        message = f"particles: {request.images} images have {slots} particles in all, which exceed {limit}"
        raise InvalidInput(message, "particles")
    reservation.extend(slots - request.images, "each particle counted as one")
    bind_contextvars(particles=slots)
    return request


def known_pictures(fields: MaskFields, config: ModelConfig) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes and the mask of each partly known picture, N each; InvalidInput where one is wrong."""
    mask = None
    if fields.mask is not None:
        mask = known_by_picture(open_picture(fields.mask, config, "mask"), config, "mask").tobytes()
    elif fields.keep_rows is not None:
        mask = known_rows(fields.keep_rows, config).tobytes()
    for data in fields.image:
        picture = open_picture(data, config, "image")
        yield pixels(picture, config).tobytes(), known_by_alpha(picture, config).tobytes() if mask is None else mask


def facts(job: Job, index: int, config: ModelConfig) -> dict[str, Any]:
    """Return what is said of a finished image in JSON: its class, null where none was asked for, and its numbers. These
    are null where they are infinite, because the model rules out a known byte, and those of completions also where
    nothing was known."""
    assert isinstance(job.request, GenerateRequest)
    is_completion, label = job.request.known_bytes_of(index) > 0, job.request.label_of(index)
    return {
        "class": config.class_names[label - 1] if label else None,
        "bits_per_dim": finite_or_null(job.bits_per_dim[index]),
        "evidence_bits": finite_or_null(job.evidence_bits[index]) if is_completion else None,
        "effective_particles": finite_or_null(job.effective_particles[index]) if is_completion else None,
    }


def finite_or_null(number: float) -> float | None:
    """A number for JSON, which has none that are infinite or undefined."""
    return float(number) if isfinite(number) else None


def _label(fields: PaintFields, config: ModelConfig) -> int:
    """Return the label that class or prompt asks for, 0 for none; InvalidInput where they name no class, or two."""
    label = label_asked_for(config, fields.class_, may_be_drawn=not isinstance(fields, EditRequest))
    prompted = label_of_prompt(config, fields.prompt or "")
    if label and prompted not in (0, label):
        raise InvalidInput("class and prompt name different classes; send one of them.", "class")
    return label or prompted
