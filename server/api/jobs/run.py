"""A task of a client from its room in the queue to its end: room, pictures and slots stand here,
and of an answer that comes whole also time and disconnect. Streams bound their own phases: once one
has begun, an error is a message of it.

HTTP and websocket share this. EngineUnavailableError or QueueFullError where there is no room,
InvalidInput where a picture is wrong or the engine has too few slots.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from fastapi import Request
from structlog.contextvars import bind_contextvars

from scanline.model.base.inputs import InvalidInput
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.task import Task
from scanline.server.api.base.cancellation import deadline, until_disconnect
from scanline.server.api.base.loop_time import current
from scanline.server.api.base.tracing import traced
from scanline.server.api.payload import offload
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.engine.job import Job
from scanline.server.models.registry import ModelRegistry, ServedModel


@asynccontextmanager
async def running(
    models: ModelRegistry,
    model: ServedModel,
    task: Task,
    client: str,
    pictures: UploadedPictures | None = None,
) -> AsyncIterator[Job]:
    """Yield the job of a task until it is done or the context is left."""
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
        with traced(model.engine.run(Job(request, task), reservation)) as job:
            yield job


@asynccontextmanager
async def finished(
    http: Request,
    models: ModelRegistry,
    model: ServedModel,
    task: Task,
    client: str,
    pictures: UploadedPictures | None = None,
) -> AsyncIterator[None]:
    """Run a task while the client of an HTTP request is connected, for at most the time of a
    request; yield once it is done, with its room."""
    async with AsyncExitStack() as stack:
        async with deadline(models.request_timeout), until_disconnect(http):
            job = await stack.enter_async_context(running(models, model, task, client, pictures))
            async for _ in changes(job):
                await do_work(task)
        yield


async def changes(job: Job) -> AsyncIterator[None]:
    """Yield at each change of a job. What the event loop does for it until the
    last one is no overhead of its client: there are as many changes as the
    engine's time allows, which is shared."""
    loop_time = current()
    with loop_time.paused():
        async for _ in job.changes():
            yield
    loop_time.images += job.total


async def do_work(task: Task) -> None:
    """Do what can be done now with the images that have ended, off the event loop."""
    if task.has_work:  # else nothing is worth a turn in the thread
        await offload.collect(task.work(), task.work_bytes)


def _slots(task: Task, models: ModelRegistry, model: ServedModel) -> tuple[int, str]:
    """Return the slots that a task's images take, as far as is known of them, and in
    words how they are counted; InvalidInput where the engine has too few for an
    image, or there may not be so many."""
    request = task.request
    if not isinstance(request, GenerateRequest):
        return task.count, ""
    kind = request.largest_kind
    kind.check_slots(model.engine.max_slots_per_image)
    slots = request.slots
    if slots == task.count:
        return slots, ""
    if slots > models.max_images:
        taken = f"{request.n} images take {slots} slots{kind.unless}"
        limit = f"above the limit of {models.max_images} per request"
        raise InvalidInput(f"{kind.param}: {taken} {limit}.", kind.param)
    bind_contextvars(slots=slots)
    return slots, kind.counted
