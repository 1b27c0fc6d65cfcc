"""Tasks without a server: their requests go into the engine loop, and the loop runs until it is
idle.

The bytes are those that a server would return for the same request.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np

from scanline.model.base import resources
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base import messages
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Failed, GenerateRequest, Request
from scanline.model.sampling.engine import Engine
from scanline.model.tasks.paint import PaintedImages, PaintTask
from scanline.model.tasks.task import Task

PASS_SECONDS = 0.1  # of a pass, for which no other client waits
PREFILL_IMAGES = 256  # of a pass; with few images, threads wait for each other
NOT_OF_A_REQUEST = messages.Ready | messages.CannotLoad | messages.Stats
# called with the bytes painted or read so far, known ones included
Progress = Callable[[int], None]


class RunOptions(TypedDict, total=False):
    """What decides how an engine runs a model, as of Generator."""

    threads: int | None
    precision: str
    backend: str | None


def nothing(done: int) -> None:
    """Report no progress."""


def after(before: int, progress: Progress) -> Progress:
    """Return the progress of a part that begins when `before` bytes are done."""
    return lambda done: progress(before + done)


def run_tasks(
    model: Transformer,
    tasks: Sequence[Task],
    *,
    progress: Progress = nothing,
    **options: Unpack[RunOptions],
) -> None:
    """Run tasks at once until all have ended; RuntimeError where the engine fails on one."""
    with engine_for(model, tasks, **options) as engine:
        for _ in progressing(engine, tasks, progress):
            pass


def progressing(
    engine: Engine, tasks: Sequence[Task], progress: Progress = nothing
) -> Iterator[None]:
    """Run tasks in an idle engine, and yield whenever something of them has come back; RuntimeError
    where one fails."""
    requests = [replace(task.request, id=number) for number, task in enumerate(tasks)]
    ended = 0  # images
    for events in run(engine, *requests):
        for event in events:
            if not isinstance(event, NOT_OF_A_REQUEST):
                tasks[event.request].receive(event)
            ended += isinstance(event, messages.Finished | messages.Scored)
        for task in tasks:
            for _ in task.work():
                pass
        if events:
            yield
        in_progress = engine.scheduler.positions[list(engine.scheduler.assigned)]
        complete = ended + len(engine.choices.waiting)
        progress(complete * engine.length + int(in_progress.sum()))


def engine_for(
    model: Transformer, tasks: Sequence[Task], **options: Unpack[RunOptions]
) -> AbstractContextManager[Engine]:
    """Return an engine in this process, for a `with`, with the slots that tasks can take at
    once."""
    return loaded_engine(model, sum(_slots(task.request) for task in tasks), **options)


def paint(
    model: Transformer,
    count: int,
    *,
    seed: int,
    known: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    progress: Progress = nothing,
    options: RunOptions | None = None,
    **sampling: Any,
) -> PaintedImages:
    """Paint `count` images; known [N] uint8 and mask [N] bool (True = known) make them completions.
    sampling: as of SamplingParams."""
    known_images = () if known is None else (known.tobytes(),)
    masks = () if mask is None else (mask.tobytes(),)
    request = GenerateRequest(0, count, seed, known_images, masks, **sampling)
    return paint_request(model, request, progress=progress, **(options or {}))


def paint_request(
    model: Transformer,
    request: GenerateRequest,
    *,
    progress: Progress = nothing,
    **options: Unpack[RunOptions],
) -> PaintedImages:
    """Paint all images of a request; RuntimeError where the engine fails on it."""
    task = PaintTask(request, model.config)
    run_tasks(model, [task], progress=progress, **options)
    return task.result()


def paint_requests(model: Transformer, requests: Sequence[GenerateRequest]) -> list[PaintedImages]:
    """Paint all images of several requests at once."""
    tasks = [PaintTask(request, model.config) for request in requests]
    run_tasks(model, tasks)
    return [task.result() for task in tasks]


@contextmanager
def loaded_engine(
    model: Transformer, slots: int, **options: Unpack[RunOptions]
) -> Iterator[Engine]:
    """Yield an engine in this process with so many slots, or as many as are taken to make
    painting faster (on a GPU not measured)."""
    threads = options["threads"] = options.get("threads") or resources.threads()
    most = 128 * threads if model.device.type == "cpu" else 4096
    generator = Generator(model, min(slots, most), **options)
    engine = Engine(generator)
    if model.device.type == "cpu" and generator.backend.prefills_in_chunks:
        engine.prefills.longest_pass = PASS_SECONDS
        engine.prefills.images_at_once = PREFILL_IMAGES
    try:
        yield engine
    finally:
        generator.close()


def run(engine: Engine, *requests: Request) -> Iterator[list[messages.Event]]:
    """Yield the events of each tick until the engine is idle; RuntimeError where it fails on a
    request."""
    for request in requests:
        engine.accept(request)
    while not engine.idle:
        events = engine.tick()
        for event in events:
            if isinstance(event, Failed):
                raise RuntimeError(event.message)
        yield events


def _slots(request: Request) -> int:
    """Return how many slots the images of a request can take at once: those of a code follow each
    other."""
    if not isinstance(request, GenerateRequest):
        return 1
    return request.slots if request.codes is None else len(request.codes.codes)
