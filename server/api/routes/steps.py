"""POST /v1/images/steps: every number of some steps of an image, in one layer and head, from the
query to the distribution of the bytes.

Nothing is painted: the engine reads the image's bytes before the last of the steps, in the
share of its time that all reads have.
"""

import time
from base64 import b64encode
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from structlog.contextvars import bind_contextvars

from scanline.model.tasks import inspect
from scanline.model.tasks.inspect import InspectTask, InspectValues
from scanline.server.api.jobs import Answer, TaskResponse, values_of
from scanline.server.api.openapi import WORK_ERRORS, errors, upload_body
from scanline.server.api.payload import offload
from scanline.server.api.payload.accept import JSON
from scanline.server.api.payload.image_output import upload_fields
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.api.payload.response_schemas import Attention, StepsAnswer
from scanline.server.api.payload.schemas import StepsRequest
from scanline.server.api.payload.uploads import read_fields
from scanline.server.models.registry import ModelRegistry, ServedModel


def router(models: ModelRegistry) -> APIRouter:
    """Return the route over `models`."""
    routes = APIRouter(prefix="/v1/images", tags=["images"])
    body = upload_body(StepsRequest, {"layer": 0, "head": 0, "first": 392, "steps": 28})

    @routes.post(
        "/steps", response_model=StepsAnswer, responses=errors(*WORK_ERRORS), openapi_extra=body
    )
    async def inspect_steps(request: Request) -> Response:
        """Return the query, key, value, (s, z), output and
        distribution of some steps of one image.
        """
        fields = await read_fields(request, StepsRequest, models)
        model = models.usable(fields.model)
        task = inspect.plan(model, values_of(InspectValues, fields, pictures=len(fields.image)))
        bind_contextvars(model=model.id, images=1)
        pictures = UploadedPictures(model, fields, models.resizes(fields.size_policy))

        async def answer() -> Answer:
            return _answer(model, fields, task, pictures.resized), {"content-type": JSON}

        return TaskResponse(request, models, model, task, pictures, answer)

    return routes


async def _answer(
    model: ServedModel, fields: StepsRequest, task: InspectTask, uploaded: tuple[str, ...]
) -> AsyncIterator[bytes]:
    """Yield the answer, which is encoded off the event loop."""
    config = model.config
    numbers = task.result()
    heads = config.layers * config.heads
    c = config.key_width
    m = config.value_width
    # with those before the inspected ones
    passed = (task.steps.stop - config.first) // config.step_bytes
    attention = Attention(
        state_bytes=4 * heads * c * (m + 1), cache_bytes=4 * heads * (c + m) * passed
    )

    def encoded() -> bytes:
        return (
            StepsAnswer(
                created=int(time.time()),
                model=model.id,
                layer=fields.layer,
                head=fields.head,
                first=fields.first,
                steps=(task.steps.stop - task.steps.first) // config.step_bytes,
                step_bytes=config.step_bytes,
                first_byte=config.first,
                predicts=config.predicts,
                window=[config.window_rows, config.window_columns]
                if config.step == "pixel"
                else None,
                key_width=config.key_width,
                value_width=config.value_width,
                **{name: b64encode(array).decode() for name, array in numbers.arrays.items()},
                attention=attention,
                **upload_fields(uploaded),
            )
            .model_dump_json()
            .encode()
        )

    yield await offload.run(encoded)
