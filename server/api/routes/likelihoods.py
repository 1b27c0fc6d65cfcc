"""POST /v1/images/likelihoods and /classifications: bits of images, as a whole, of their known pixels, or under each
class."""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.types import Send
from structlog.contextvars import bind_contextvars

from scanline.model.class_names import label_of_class
from scanline.model.inputs import checked_particles, checked_seed
from scanline.model.likelihood.classification import check_classes, mixture_bits, of_readings, posterior, readings
from scanline.model.likelihood.marginal_likelihood import estimate
from scanline.model.likelihood.typicality import TYPICAL
from scanline.model.sampling.messages import GenerateRequest, ScoreRequest
from scanline.server.api.cancellation import finished
from scanline.server.api.client import client_of
from scanline.server.api.jobs import finite_or_null, painting, scoring
from scanline.server.api.openapi import WORK_ERRORS, errors, upload_body
from scanline.server.api.payload.answers import (
    JSON,
    WorkingResponse,
    check_per_pixel,
    listed_chunks,
    scored_chunks,
    send_answer,
)
from scanline.server.api.payload.image_output import upload_fields
from scanline.server.api.payload.response_schemas import (
    ClassificationData,
    ClassificationsAnswer,
    Evidence,
    EvidenceAnswer,
    Likelihood,
    LikelihoodsAnswer,
)
from scanline.server.api.payload.schemas import ClassificationRequest, LikelihoodRequest
from scanline.server.api.payload.uploads import read_fields
from scanline.server.engine.job import Job, PendingJob, TotalsJob
from scanline.server.models.registry import ModelRegistry, ServedModel


def router(models: ModelRegistry) -> APIRouter:
    """Return both routes over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    likelihood, classification = upload_body(LikelihoodRequest, {}), upload_body(ClassificationRequest, {})
    refused = errors(*WORK_ERRORS)
    either = LikelihoodsAnswer | EvidenceAnswer

    @routes.post("/likelihoods", response_model=either, responses=refused, openapi_extra=likelihood)
    async def score_images(request: Request) -> Response:
        """Return how many bits the model needs for given images, or for their known pixels whatever the others are."""
        fields = await read_fields(request, LikelihoodRequest, models)
        model = models.usable(fields.model)
        label = label_of_class(model.config, fields.class_)
        if fields.has_mask:
            return _estimate(models, model, request, fields, label)
        return _score(models, model, request, fields, label)

    @routes.post(
        "/classifications", response_model=ClassificationsAnswer, responses=refused, openapi_extra=classification
    )
    async def classify_images(request: Request) -> Response:
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
        client = client_of(request.scope).id
        resize = models.resizes(fields.size_policy)
        scored = scoring(model, fields, [label], client, lambda score: Job(score, config.bytes), resize)
        async with finished(request, models.request_timeout, scored, _wait) as (job, noisy, uploaded):
            answer = LikelihoodsAnswer(
                created=int(time.time()),
                model=model.id,
                typical_bits_per_dim=model.typical_bits_per_dim,
                data=[],
                **upload_fields(uploaded),
            )
            items = _likelihoods(model, job, noisy)
            return await _send(models, request, send, scored_chunks(answer, items, job, config, fields.per_pixel))

    return WorkingResponse(work)


def _estimate(
    models: ModelRegistry, model: ServedModel, request: Request, fields: LikelihoodRequest, label: int
) -> Response:
    """Paint the hidden bytes of each image `repeats` times at temperature 1, and return the mean of what the known
    bytes cost in them: 2^-evidence_bits of each is an unbiased estimate of their probability."""
    n = len(fields.image) * fields.repeats
    models.check_count(n, "repeats")

    async def work(send: Send) -> bytes | None:
        bind_contextvars(model=model.id, images=n)
        wanted = GenerateRequest(
            id=next(model.engine.request_ids),
            n=n,
            seed=checked_seed(fields.seed),
            label=label,
            particles=checked_particles(fields.particles, default=model.defaults.particles),
            client=client_of(request.scope).id,
        )
        painted = painting(models, model, wanted, fields, models.resizes(fields.size_policy))
        async with finished(request, models.request_timeout, painted, lambda entered: entered[1].wait()) as (
            wanted,
            job,
            uploaded,
        ):
            answer = EvidenceAnswer(
                created=int(time.time()),
                model=model.id,
                seed=wanted.seed,
                particles=wanted.particles,
                repeats=fields.repeats,
                data=[],
                **upload_fields(uploaded),
            )
            return await _send(models, request, send, listed_chunks(answer, _evidence(job, wanted), n))

    return WorkingResponse(work)


def _classify(models: ModelRegistry, model: ServedModel, request: Request, fields: ClassificationRequest) -> Response:
    config = model.config
    check_classes(config)
    labels = range(1, len(config.classes) + 1)
    each = "twice for each class" if config.mirrored else "once for each class"
    models.check_count(len(fields.image) * readings(config), "image", each)

    async def work(send: Send) -> bytes | None:
        resize = models.resizes(fields.size_policy)
        scored = scoring(model, fields, labels, client_of(request.scope).id, TotalsJob, resize)
        async with finished(request, models.request_timeout, scored, _wait) as (job, noisy, uploaded):
            answer = ClassificationsAnswer(
                created=int(time.time()),
                model=model.id,
                typical_bits_per_dim=model.typical_bits_per_dim,
                data=[],
                **upload_fields(uploaded),
            )
            items = _classifications(model, job, noisy)
            return await _send(models, request, send, listed_chunks(answer, items, job.totals.size))

    return WorkingResponse(work)


def _evidence(job: Job, request: GenerateRequest) -> Iterator[Evidence]:
    """Yield the estimate of each image, from all its paintings."""
    repeats = request.n // len(request.masks)
    for index, mask in enumerate(request.masks):
        mean = estimate(job.evidence_bits[index * repeats : (index + 1) * repeats], mask.count(1))
        yield Evidence(
            index=index,
            evidence_bits=finite_or_null(mean.bits),
            standard_error=finite_or_null(mean.standard_error),
            known_bytes=mean.known_bytes,
            bits_per_known_byte=finite_or_null(mean.bits_per_dim),
        )


async def _wait(scored: tuple[PendingJob, list[bool], tuple[str, ...]]) -> None:
    """Wait for the job of `scoring`."""
    await scored[0].wait()


def _likelihoods(model: ServedModel, job: Job, noisy: Sequence[bool]) -> Iterator[Likelihood]:
    """Yield the answer of each image, without the bits of its bytes."""
    for index, has_noise in enumerate(noisy):
        bits = job.bits[index]
        doubt = _doubt(model, job, index, bits.sum(), has_noise)
        yield Likelihood(index=index, bits_per_dim=finite_or_null(bits.mean()), **doubt)


def _classifications(model: ServedModel, job: TotalsJob, noisy: Sequence[bool]) -> Iterator[ClassificationData]:
    """Yield the answer of each image, from its bits under each class."""
    config, names = model.config, model.config.class_names
    bits, compared = of_readings(config, job.totals)
    probabilities, mixtures = posterior(compared), mixture_bits(bits)
    for index, best in enumerate(compared.argmin(axis=1)):
        yield ClassificationData(
            index=index,
            class_=names[best],
            posterior=dict(zip(names, probabilities[index].tolist(), strict=True)),
            bits_per_dim=dict(zip(names, map(finite_or_null, bits[index] / config.bytes), strict=True)),
            any_class_bits_per_dim=finite_or_null(mixtures[index] / config.bytes),
            **_doubt(model, job, index * readings(config), mixtures[index], noisy[index]),
        )


def _doubt(model: ServedModel, job: PendingJob, at: int, bits: float, noisy: bool) -> dict[str, Any]:
    """Return the fields of `Doubt` of the image at that place in the job, which costs so many bits."""
    if model.typicality is None:
        return {"noisy": noisy}
    assert isinstance(job.request, ScoreRequest)
    image = np.frombuffer(job.request.images[at], np.uint8)[None]
    (tail,) = model.typicality.tail_probabilities(np.array([bits]), image, np.array([noisy])).tolist()
    return {"typical": tail >= TYPICAL, "tail_probability": tail, "noisy": noisy}


async def _send(models: ModelRegistry, request: Request, send: Send, chunks: AsyncIterator[bytes]) -> bytes | None:
    return await send_answer(request, send, chunks, {"content-type": JSON}, models.request_timeout)
