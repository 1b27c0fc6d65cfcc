"""POST /v1/images/likelihoods, /classifications: what given images cost, as a whole, in part, or under each class."""

import time
from collections.abc import AsyncIterator, Iterator

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.types import Send
from structlog.contextvars import bind_contextvars

from scanline.model import pictures
from scanline.model.class_names import label_asked_for
from scanline.model.classification import check_classes, posterior
from scanline.model.config import ModelConfig
from scanline.model.sampling.messages import ScoreRequest
from scanline.server.api.cancellation import cancel_on_disconnect, deadline
from scanline.server.api.client import client_of
from scanline.server.api.evidence import evidence_of, evidence_request
from scanline.server.api.jobs import finite_or_null, with_room
from scanline.server.api.openapi import WORK_ERRORS, errors, upload_body
from scanline.server.api.payload import offload
from scanline.server.api.payload.answers import (
    JSON,
    WorkingResponse,
    check_per_pixel,
    listed_pieces,
    scored_pieces,
    send_answer,
)
from scanline.server.api.payload.response_schemas import (
    Classification,
    ClassificationsAnswer,
    EvidenceAnswer,
    LikelihoodsAnswer,
)
from scanline.server.api.payload.schemas import ClassificationRequest, LikelihoodRequest, PictureFields
from scanline.server.api.payload.uploads import read_fields
from scanline.server.api.tracing import traced
from scanline.server.engine.job import Job, TotalsJob
from scanline.server.process.registry import ModelRegistry, ServedModel


def router(models: ModelRegistry) -> APIRouter:
    """Return both routes over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    likelihood, classification = upload_body(LikelihoodRequest), upload_body(ClassificationRequest)
    refused = errors(*WORK_ERRORS)
    either = LikelihoodsAnswer | EvidenceAnswer

    @routes.post("/likelihoods", response_model=either, responses=refused, openapi_extra=likelihood)
    async def likelihoods(request: Request) -> Response:
        """Return how many bits the model needs for given images, or for their known pixels whatever the others are."""
        fields = await read_fields(request, LikelihoodRequest, models)
        model = models.usable(fields.model)
        label = label_asked_for(model.config, fields.class_)
        if fields.has_mask:
            return _estimate(models, model, request, fields, label)
        return _score(models, model, request, fields, label)

    @routes.post(
        "/classifications", response_model=ClassificationsAnswer, responses=refused, openapi_extra=classification
    )
    async def classifications(request: Request) -> Response:
        """Return the most probable class of given images, and what each class says of them."""
        fields = await read_fields(request, ClassificationRequest, models)
        return _classify(models, models.usable(fields.model), request, fields)

    return routes


def _score(
    models: ModelRegistry, model: ServedModel, request: Request, fields: LikelihoodRequest, label: int
) -> Response:
    models.check_count(len(fields.image), "image")
    config = model.config
    if fields.per_pixel:
        check_per_pixel(len(fields.image), config)

    async def work(send: Send) -> bytes | None:
        bind_contextvars(model=model.id, images=len(fields.image))
        client = client_of(request.scope).id
        with model.engine.reserve(len(fields.image), client) as reservation:
            read = await _read(fields, config)
            labels = (label,) * len(read) if label else ()
            score = ScoreRequest(next(model.engine.request_ids), read, labels, client=client)
            with traced(model.engine.run(Job(score, config.bytes), reservation)) as job:
                async with deadline(models.request_timeout):
                    await cancel_on_disconnect(request, job.wait())
                answer = LikelihoodsAnswer(created=int(time.time()), model=model.id, data=[])
                return await _send(models, request, send, scored_pieces(answer, job, config, fields.per_pixel))

    return WorkingResponse(work)


def _estimate(
    models: ModelRegistry, model: ServedModel, request: Request, fields: LikelihoodRequest, label: int
) -> Response:
    images = len(fields.image) * fields.repeats
    models.check_count(images, "repeats")

    async def work(send: Send) -> bytes | None:
        bind_contextvars(model=model.id, images=images)
        client = client_of(request.scope).id
        with model.engine.reserve(images, client) as reservation:
            wanted = await evidence_request(fields, label, model, client)
            wanted = with_room(wanted, models, model, reservation)
            bind_contextvars(seed=wanted.seed)
            with traced(model.engine.run(Job(wanted, model.config.bytes), reservation)) as job:
                async with deadline(models.request_timeout):
                    await cancel_on_disconnect(request, job.wait())
                answer = EvidenceAnswer(
                    created=int(time.time()),
                    model=model.id,
                    seed=wanted.seed,
                    particles=fields.particles,
                    repeats=fields.repeats,
                    data=[],
                )
                return await _send(models, request, send, listed_pieces(answer, evidence_of(job, wanted), images))

    return WorkingResponse(work)


def _classify(models: ModelRegistry, model: ServedModel, request: Request, fields: ClassificationRequest) -> Response:
    models.check_count(len(fields.image), "image")
    config, classes = model.config, len(model.config.classes)
    check_classes(config)
    readings = len(fields.image) * classes

    async def work(send: Send) -> bytes | None:
        bind_contextvars(model=model.id, images=len(fields.image))
        client = client_of(request.scope).id
        with model.engine.reserve(readings, client) as reservation:
            read = await _read(fields, config)
            copies = tuple(image for image in read for _ in range(classes))
            labels = tuple(range(1, classes + 1)) * len(read)
            score = ScoreRequest(next(model.engine.request_ids), copies, labels, client=client)
            with traced(model.engine.run(TotalsJob(score), reservation)) as job:
                async with deadline(models.request_timeout):
                    await cancel_on_disconnect(request, job.wait())
                answer = ClassificationsAnswer(created=int(time.time()), model=model.id, data=[])
                found = _classifications(job.totals.reshape(len(read), classes), config)
                return await _send(models, request, send, listed_pieces(answer, found, readings))

    return WorkingResponse(work)


def _classifications(bits: np.ndarray, config: ModelConfig) -> Iterator[Classification]:
    """Yield what is known of each image, from its bits under each class [n, K]."""
    names = config.class_names
    for index, (one, probabilities) in enumerate(zip(bits, posterior(bits), strict=True)):
        yield Classification(
            index=index,
            class_=names[int(one.argmin())],
            posterior=dict(zip(names, probabilities.tolist(), strict=True)),
            bits_per_dim={name: finite_or_null(each) for name, each in zip(names, one / config.bytes, strict=True)},
        )


async def _read(fields: PictureFields, config: ModelConfig) -> tuple[bytes, ...]:
    """Return the bytes of each picture; InvalidInput where one is wrong."""

    def steps() -> Iterator[bytes]:
        for data in fields.image:
            yield pictures.pixels(pictures.open_picture(data, config, "image"), config).tobytes()

    return tuple(await offload.collect(steps(), sum(map(len, fields.image))))


async def _send(models: ModelRegistry, request: Request, send: Send, pieces: AsyncIterator[bytes]) -> bytes | None:
    return await send_answer(request, send, pieces, {"content-type": JSON}, models.request_timeout)
