"""POST /v1/images/likelihoods, /classifications: bits of whole images, of
known pixels, or under each class.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from structlog.contextvars import bind_contextvars

from scanline.model.base.config import ModelConfig
from scanline.model.likelihood.classification import Classification, mixture_bits
from scanline.model.likelihood.typicality import TYPICAL
from scanline.model.tasks import classify, estimate, score
from scanline.model.tasks.classify import ClassifyValues
from scanline.model.tasks.estimate import Estimates, EstimateTask, EstimateValues
from scanline.model.tasks.score import Scores, ScoreValues
from scanline.model.tasks.task import ReadTask, Task
from scanline.server.api.jobs import Answer, TaskResponse, values_of
from scanline.server.api.openapi import WORK_ERRORS, errors, upload_body
from scanline.server.api.payload import answers, offload, response_schemas
from scanline.server.api.payload.accept import JSON
from scanline.server.api.payload.answers import listed_chunks
from scanline.server.api.payload.image_output import finite_or_null, upload_fields
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.api.payload.response_schemas import (
    ClassificationsAnswer,
    EvidenceAnswer,
    LikelihoodsAnswer,
)
from scanline.server.api.payload.schemas import (
    ClassificationRequest,
    LikelihoodRequest,
    PictureFields,
)
from scanline.server.api.payload.uploads import read_fields
from scanline.server.models.registry import ModelRegistry, ServedModel


def router(models: ModelRegistry) -> APIRouter:
    """Return both routes over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    refusals = errors(*WORK_ERRORS)
    scored = LikelihoodsAnswer | EvidenceAnswer
    body = upload_body(LikelihoodRequest, {})

    @routes.post("/likelihoods", response_model=scored, responses=refusals, openapi_extra=body)
    async def score_images(request: Request) -> Response:
        """Return how many bits the model needs for given images, or for their
        known pixels whatever the others are.
        """
        fields = await read_fields(request, LikelihoodRequest, models)
        respond = _estimate if fields.has_mask else _score
        return respond(models, models.usable(fields.model), request, fields)

    body = upload_body(ClassificationRequest, {})

    @routes.post(
        "/classifications",
        response_model=ClassificationsAnswer,
        responses=refusals,
        openapi_extra=body,
    )
    async def classify_images(request: Request) -> Response:
        """Return the most probable class of given images, and what each class says of them."""
        fields = await read_fields(request, ClassificationRequest, models)
        return _classify(models, models.usable(fields.model), request, fields)

    return routes


def _score(
    models: ModelRegistry, model: ServedModel, request: Request, fields: LikelihoodRequest
) -> Response:
    task = score.plan(model, values_of(ScoreValues, fields, pictures=len(fields.image)))
    models.check_count(task.count, "image")
    if fields.per_pixel:
        answers.check_per_pixel(len(fields.image), model.config)

    def answer(uploaded: tuple[str, ...], scores: Scores) -> AsyncIterator[bytes]:
        whole = LikelihoodsAnswer(
            **_common(model, uploaded), typical_bits_per_dim=model.typical_bits_per_dim
        )
        return answers.scored_chunks(
            whole, _likelihoods(scores), scores, model.config, fields.per_pixel
        )

    return _read(models, model, request, fields, task, answer)


def _classify(
    models: ModelRegistry, model: ServedModel, request: Request, fields: ClassificationRequest
) -> Response:
    task = classify.plan(model, values_of(ClassifyValues, fields, pictures=len(fields.image)))
    readings = "twice for each class" if model.config.mirrored else "once for each class"
    if model.has_class_head:
        readings = f"{readings} and once for the class head" if task.by_bits else ""
    models.check_count(task.count, "image", readings)
    common = {
        "typical_bits_per_dim": model.typical_bits_per_dim,
        "read_by": "head" if model.has_class_head else "bits",
    }

    def answer(uploaded: tuple[str, ...], found: Classification) -> AsyncIterator[bytes]:
        whole = ClassificationsAnswer(**_common(model, uploaded), **common)
        return listed_chunks(whole, _classifications(found, model.config), task.count)

    return _read(models, model, request, fields, task, answer)


def _estimate(
    models: ModelRegistry, model: ServedModel, request: Request, fields: LikelihoodRequest
) -> Response:
    known_by = "keep_rows" if fields.mask is None else "mask"
    values = values_of(EstimateValues, fields, pictures=len(fields.image), known_by=known_by)
    models.check_count(values.pictures * values.repeats, "repeats")
    task = estimate.plan(model, values)
    bind_contextvars(**task.drawn)

    def answer(uploaded: tuple[str, ...], found: Estimates) -> AsyncIterator[bytes]:
        # Of the parameters of sampling it has what the same estimates need again.
        sampling = vars(found.sampling)
        whole = EvidenceAnswer(
            **_common(model, uploaded), **sampling, seed=found.seed, repeats=fields.repeats
        )
        return listed_chunks(whole, _evidence(found), task.count)

    return _read(models, model, request, fields, task, answer)


def _read(
    models: ModelRegistry,
    model: ServedModel,
    request: Request,
    fields: PictureFields,
    task: Task,
    answer: Callable[[tuple[str, ...], Any], AsyncIterator[bytes]],
) -> Response:
    """Return the response of a task that reads pictures. answer: the sizes that were
    resized and the task's result as JSON."""
    bind_contextvars(
        model=model.id, images=task.count if isinstance(task, EstimateTask) else len(fields.image)
    )
    resizes = models.resizes(fields.size_policy)
    if fields.size_policy is None and isinstance(task, ReadTask):
        resizes = resizes or model.photos(fields.clean) is not None
    pictures = UploadedPictures(model, fields, resizes)

    async def whole_answer() -> Answer:
        result = await offload.run(task.result)
        return answer(pictures.resized, result), {"content-type": JSON}

    return TaskResponse(request, models, model, task, pictures, whole_answer)


def _common(model: ServedModel, uploaded: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that all answers have in common, without data."""
    return {"created": int(time.time()), "model": model.id, "data": [], **upload_fields(uploaded)}


def _evidence(found: Estimates) -> Iterator[response_schemas.Evidence]:
    for index, mean in enumerate(found.estimates):
        yield response_schemas.Evidence(
            index=index,
            evidence_bits=finite_or_null(mean.bits),
            standard_error=finite_or_null(mean.standard_error),
            known_bytes=mean.known_bytes,
            bits_per_known_byte=finite_or_null(mean.bits_per_dim),
        )


def _likelihoods(scores: Scores) -> Iterator[response_schemas.Likelihood]:
    """Yield the answer of each image, without the bits of its bytes."""
    for index, bits in enumerate(scores.bits):
        outlier = _outlier_fields(scores.tail_probabilities, scores.noisy, index)
        yield response_schemas.Likelihood(
            index=index, bits_per_dim=finite_or_null(bits.mean()), **outlier
        )


def _classifications(
    found: Classification, config: ModelConfig
) -> Iterator[response_schemas.ClassificationData]:
    """Yield the answer of each image, from its posteriors and its bits under each class."""

    def named(values: Iterable[float | None]) -> dict[str, Any]:
        return dict(zip(found.class_names, values, strict=True))

    probabilities = found.posterior
    by_bits = found.posterior_by_bits
    bits = found.bits
    for index, best in enumerate(found.best):
        read: dict[str, Any] = {}
        if bits is not None and by_bits is not None:
            read["posterior_by_bits"] = named(by_bits[index].tolist())
            read["bits_per_dim"] = named(map(finite_or_null, bits[index] / config.bytes))
            read["any_class_bits_per_dim"] = finite_or_null(
                float(mixture_bits(bits[index])) / config.bytes
            )
        yield response_schemas.ClassificationData(
            index=index,
            class_=best,
            posterior=named(probabilities[index].tolist()),
            **read,
            **_outlier_fields(found.tail_probabilities, found.noisy, index),
        )


def _outlier_fields(tails: np.ndarray | None, noisy: np.ndarray, index: int) -> dict[str, Any]:
    if tails is None:
        return {"noisy": bool(noisy[index])}
    tail = float(tails[index])
    return {"typical": tail >= TYPICAL, "tail_probability": tail, "noisy": bool(noisy[index])}
