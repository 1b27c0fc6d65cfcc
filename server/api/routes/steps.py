"""POST /v1/images/steps: every number of some steps of an image, in one layer and head, from the query to the
distribution of the bytes.

Nothing is painted: the engine reads the image's bytes before the last of the steps, in the share of its time that all
reads have.
"""

import time
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import asdict, replace

from fastapi import APIRouter, Request, Response
from starlette.types import Send

from scanline.model.class_names import label_of_class
from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import ScoreRequest, StepRange
from scanline.server.api.cancellation import finished
from scanline.server.api.client import client_of
from scanline.server.api.jobs import scoring
from scanline.server.api.openapi import WORK_ERRORS, errors, upload_body
from scanline.server.api.payload import offload
from scanline.server.api.payload.answers import JSON, WorkingResponse, send_answer
from scanline.server.api.payload.image_output import upload_fields
from scanline.server.api.payload.response_schemas import Attention, StepsAnswer
from scanline.server.api.payload.schemas import StepsRequest
from scanline.server.api.payload.uploads import read_fields
from scanline.server.api.routes.state_snapshot import check_layer_and_head
from scanline.server.engine.job import StepsJob
from scanline.server.models.registry import ModelRegistry, ServedModel


def router(models: ModelRegistry) -> APIRouter:
    """Return the route over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    body = upload_body(StepsRequest, {"layer": 0, "head": 0, "first": 392, "steps": 28})

    @routes.post("/steps", response_model=StepsAnswer, responses=errors(*WORK_ERRORS), openapi_extra=body)
    async def inspect_steps(request: Request) -> Response:
        """Return the query, key, value, (s, z), output and distribution of some steps of one image."""
        fields = await read_fields(request, StepsRequest, models)
        model = models.usable(fields.model)
        label, wanted = label_of_class(model.config, fields.class_), _wanted(fields, model)

        def new_job(score: ScoreRequest) -> StepsJob:
            return StepsJob(replace(score, inspected=wanted))

        async def work(send: Send) -> bytes | None:
            resize = models.resizes(fields.size_policy)
            scored = scoring(model, fields, [label], client_of(request.scope).id, new_job, resize)
            async with finished(request, models.request_timeout, scored, lambda entered: entered[0].wait()) as (
                job,
                _,
                uploaded,
            ):
                chunks = _answer(model, fields, wanted, job, uploaded)
                return await send_answer(request, send, chunks, {"content-type": JSON}, models.request_timeout)

        return WorkingResponse(work)

    return routes


def _wanted(fields: StepsRequest, model: ServedModel) -> StepRange:
    """Return the bytes of the steps; InvalidInput where the model has no such layer, head or step, or the request does
    not have one picture."""
    config = model.config
    check_layer_and_head(model, fields.layer, fields.head, "layer", "head")
    if fields.first >= config.steps:
        raise InvalidInput(f"first: {model.id} has steps 0 to {config.steps - 1}.", "first")
    if len(fields.image) != 1:
        raise InvalidInput("image must be one picture.", "image")
    first, stop = (config.first + step * config.step_bytes for step in (fields.first, fields.first + fields.steps))
    return StepRange(fields.layer, fields.head, first, min(stop, config.bytes))


async def _answer(
    model: ServedModel, fields: StepsRequest, wanted: StepRange, job: StepsJob, uploaded: tuple[str, ...]
) -> AsyncIterator[bytes]:
    """Yield the answer, which is encoded off the event loop."""
    config, numbers = model.config, job.steps
    assert numbers is not None

    def encoded() -> bytes:
        return (
            StepsAnswer(
                created=int(time.time()),
                model=model.id,
                layer=fields.layer,
                head=fields.head,
                first=fields.first,
                steps=(wanted.stop - wanted.first) // config.step_bytes,
                step_bytes=config.step_bytes,
                first_byte=config.first,
                predicts=config.predicts,
                window=[config.window_rows, config.window_columns] if config.step == "pixel" else None,
                key_width=config.key_width,
                value_width=config.value_width,
                **{name: b64encode(array).decode() for name, array in numbers.arrays.items()},
                attention=Attention(**asdict(numbers.cost)),
                **upload_fields(uploaded),
            )
            .model_dump_json()
            .encode()
        )

    yield await offload.run(encoded)
