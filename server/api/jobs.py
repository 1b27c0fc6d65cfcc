"""A task of a client: planned from checked fields, run with room in the queue, and answered.

HTTP and websocket share this. An answer that comes whole is bounded in time and ends with its
client's connection. A stream bounds its own phases: once it has begun, an error is a message of it.
EngineUnavailableError or QueueFullError where there is no room, InvalidInput where a picture is
wrong or the engine has too few slots.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.model.base.inputs import InvalidInput
from scanline.model.base.sampling_options import PaintOptions
from scanline.model.formats.code_file import CodeFile, read
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks import decode, paint
from scanline.model.tasks.decode import DecodeTask, DecodeValues
from scanline.model.tasks.paint import CompleteValues, PaintTask, PaintValues
from scanline.model.tasks.task import Task
from scanline.server.api.base.cancellation import deadline, until_disconnect
from scanline.server.api.base.client import CURRENT
from scanline.server.api.base.loop_time import current
from scanline.server.api.base.tracing import record_phases
from scanline.server.api.payload import offload
from scanline.server.api.payload.answers import send_answer
from scanline.server.api.payload.pictures import UploadedPictures, numbered
from scanline.server.api.payload.schemas import DecodingRequest, EditRequest, PaintFields
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.engine.job import Job
from scanline.server.models.registry import ModelRegistry, ServedModel

# of a file, of which some are decoded: the lengths of so many codes are read in less than a second
MAX_IMAGES = 2**18
Values = TypeVar("Values")
# the body of a response in chunks, and its headers
Answer = tuple[AsyncIterator[bytes], dict[str, str]]


def values_of(kind: type[Values], fields: BaseModel, **more: object) -> Values:
    """Return the values of a task that a request's fields of the same names give,
    its options of sampling as well.
    """
    wanted: dict[str, Any] = {field.name: field.type for field in fields_of(kind)}  # type: ignore[arg-type]
    values = {
        name: getattr(fields, name) for name in wanted.keys() & type(fields).model_fields.keys()
    }
    if "sampling" in wanted:
        names = type(fields).model_fields.keys() & PaintOptions.__annotations__
        values["sampling"] = {name: getattr(fields, name) for name in names}
    return kind(**values, **more)


def paint_task(models: ModelRegistry, fields: PaintFields) -> tuple[ServedModel, PaintTask]:
    """Return the model that is asked for and the task that paints or completes images; InvalidInput
    where they are too many or a field is wrong."""
    model = models.usable(fields.model)
    if isinstance(fields, EditRequest):
        pictures = len(fields.image)
        values: PaintValues = values_of(
            CompleteValues, fields, max_images=models.max_images, pictures=pictures
        )
    else:
        values = values_of(PaintValues, fields, max_images=models.max_images)
    task = paint.plan(model, values)
    bind_contextvars(model=model.id, images=task.count, **task.drawn)
    return model, task


async def decode_task(
    models: ModelRegistry, fields: DecodingRequest
) -> tuple[ServedModel, DecodeTask]:
    """Return the model that made codes and the task that decodes them; InvalidInput where a code is
    wrong or of no model here, or the images are too many, EngineUnavailableError where a model that
    may have made it is not loaded yet."""
    files = await offload.collect(_files(fields.code), None)
    model = _model_of(models, fields.model, files)
    ranges = fields.ranges(sum(file.count for file in files))
    models.check_count(sum(map(len, ranges)), "code" if fields.images is None else "images")
    assert model.engine.ready is not None
    values = DecodeValues(
        files,
        [number for numbers in ranges for number in numbers],
        model.engine.ready.codings,
        model.engine.options.precision,
        digest=model.engine.ready.digest,
        is_checked=not fields.unchecked,
        max_images=models.max_images,
    )
    task = decode.plan(model, values)
    bind_contextvars(model=model.id, images=len(task.shown))
    return model, task


def _files(codes: Sequence[bytes]) -> Iterator[CodeFile]:
    for index, data in enumerate(codes):
        with numbered("Code", index, len(codes)):
            yield read(data, "code", MAX_IMAGES)


def _model_of(models: ModelRegistry, name: str | None, files: Sequence[CodeFile]) -> ServedModel:
    """Return the model that made the files: that of the name, where there is one."""
    file = files[0]
    if any(other.coding != file.coding for other in files):
        raise InvalidInput(
            "code: all codes of a request must be of one model at one precision.", "code"
        )
    served: list[ServedModel] = []
    if name is None:
        served = [model for model in models.all.values() if model.state != "failed"]
    if not served:
        served = [models.usable(name)]
    for model in served:
        if model.engine.ready is not None and file.coding in model.engine.ready.codings:
            return model
    codings = []
    for model in served:
        if model.engine.ready is None:
            raise EngineUnavailableError
        codings.append(
            f"{model.id} at {model.engine.options.precision} has {model.engine.ready.coding or 'none'}"
        )
    needed = f"code is of a model with the coding {file.coding} at precision {file.precision}"
    raise InvalidInput(f"{needed}; {', '.join(codings)}.", "code", "other_model")


@dataclass(eq=False)
class TaskResponse(Response):
    """A response whose task is done while it is sent.

    `answer` returns the body in chunks and its headers, once the task is done. The last bytes are
    sent when the room in the queue has been given back, so that it is free once the client has
    the answer.
    """

    request: Request
    models: ModelRegistry
    model: ServedModel
    task: Task
    pictures: UploadedPictures | None
    answer: Callable[[], Awaitable[Answer]]

    def __post_init__(self) -> None:
        super().__init__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        timeout = self.models.request_timeout
        async with AsyncExitStack() as work:
            async with deadline(timeout), until_disconnect(self.request):
                job = await work.enter_async_context(
                    running(self.models, self.model, self.task, self.pictures)
                )
                async for _ in changes(job, self.task):
                    pass
            last = await send_answer(self.request, send, *await self.answer(), timeout)
        if last is not None:
            await send({"type": "http.response.body", "body": last})


@asynccontextmanager
async def running(
    models: ModelRegistry,
    model: ServedModel,
    task: Task,
    pictures: UploadedPictures | None = None,
) -> AsyncIterator[Job]:
    """Yield the job of a task until it is done or the context is left."""
    client = CURRENT.get()
    slots, counted = _slots(task, models, model)
    # before any picture is decoded
    with model.engine.reserve(slots, client, counted) as reservation:
        if pictures is not None:
            await pictures.fill(task)
            # how many slots an image takes depends on its mask
            slots, counted = _slots(task, models, model)
            if slots > reservation.images:
                reservation.extend(slots - reservation.images, counted)
        request = replace(task.request, id=next(model.engine.request_ids), client=client)
        began = time.time_ns()
        with model.engine.run(Job(request, task), reservation) as job:
            try:
                yield job
            finally:
                record_phases(job, began)


async def changes(job: Job, task: Task) -> AsyncIterator[None]:
    """Yield at each change of a job, once the images that have ended are worked on. What the event
    loop does for it until the last one is no overhead of its client: there are as many changes as
    the engine's time allows, which is shared."""
    loop_time = current()
    with loop_time.paused():
        async for _ in job.changes():
            if task.has_work:  # else nothing is worth a turn in the thread
                await offload.collect(task.work(), task.work_bytes)
            yield
    loop_time.images += job.total


def _slots(task: Task, models: ModelRegistry, model: ServedModel) -> tuple[int, str]:
    """Return the slots that a task's images take, as far as is known of them, and in
    words how they are counted; InvalidInput where the engine has too few for an
    image, or there may not be so many."""
    request = task.request
    if not isinstance(request, GenerateRequest):
        return task.count, ""
    slots = request.slots
    if slots == task.count:
        return slots, ""
    kind = request.largest_kind
    kind.check_slots(model.engine.max_slots_per_image)
    if slots > models.max_images:
        taken = f"{request.n} images take {slots} slots{kind.unless}"
        limit = f"above the limit of {models.max_images} per request"
        raise InvalidInput(f"{kind.param}: {taken} {limit}.", kind.param)
    bind_contextvars(slots=slots)
    return slots, kind.counted
