"""Requests to engines over the pipe between an API process and its main
process, and calls in both directions.

An event goes to the API process as it is, with the id that the request has there. A request costs
the main process two messages and its events.
"""

import asyncio
import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from scanline.model.sampling.base.messages import Cancel, Event, Failed, Request
from scanline.server.engine.handle import EngineHandle, EngineUnavailableError
from scanline.server.engine.job import Job
from scanline.server.engine.local.engine_client import MODEL_CHANGED, STOPPED
from scanline.server.engine.local.engine_process import SILENT_SECONDS
from scanline.server.engine.pipe import Pipe
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.remote.relay_job import RelayJob
from scanline.server.engine.remote.remote_engine import RemoteEngine
from scanline.server.engine.remote.status import EngineStatus

log = logging.getLogger("scanline.server")

Methods = Mapping[str, Callable[[Any], Coroutine[Any, Any, Any]]]
Statuses = dict[str, EngineStatus]  # by model, in the order of the registry
FindEngine = Callable[[str, str], EngineHandle | None]  # by model and digest


@dataclass(frozen=True)
class Submit:
    """Have a model's engine do a request."""

    model: str
    request: Request


@dataclass(frozen=True)
class Call:
    """Call a method of the other process."""

    number: int
    method: str
    argument: Any


class CallError(Exception):
    """A method of the other process failed, whose log says why."""


@dataclass(frozen=True)
class Answer:
    """The value that the call of that number returned, or that it failed."""

    number: int
    value: Any
    has_failed: bool = False


@dataclass(frozen=True)
class Alive:
    """The answer to statuses: this API process is not silent, and has
    requests for models of these digests.
    """

    digests: frozenset[str]


class PipeEnd(ABC):
    """One end of the pipe. Messages that are neither a call nor an answer go to `_receive`."""

    def __init__(self, connection: Connection, name: str, methods: Methods) -> None:
        self.methods = methods
        self.calls: dict[int, asyncio.Future[Any]] = {}
        self.numbers = itertools.count()
        self.tasks: set[asyncio.Task[None]] = set()  # that answer calls
        self.pipe = Pipe(connection, self._receive_all, name)

    async def call(self, method: str, argument: Any = None) -> Any:
        """Return what the method of the other process returns, CallError where it fails; wait
        without end where that process has ended."""
        number = next(self.numbers)
        answered = self.calls[number] = asyncio.get_running_loop().create_future()
        try:
            self.pipe.send(Call(number, method, argument))
            return await answered
        finally:
            del self.calls[number]

    @abstractmethod
    def _receive(self, message: Any) -> None:
        """Take in a message about requests or engines."""

    def _receive_all(self, messages: list[Any]) -> None:
        for message in messages:
            match message:
                case Call():
                    task = asyncio.create_task(self._answer(message))
                    self.tasks.add(task)
                    task.add_done_callback(self.tasks.discard)
                case Answer():
                    if (answered := self.calls.get(message.number)) and not answered.done():
                        self._take_answer(answered, message)
                case _:
                    try:
                        self._receive(message)
                    except Exception:  # those behind it are of other requests
                        log.exception(
                            "a message of another process of this server could not be taken in"
                        )

    def _take_answer(self, answered: asyncio.Future[Any], answer: Answer) -> None:
        if answer.has_failed:
            answered.set_exception(CallError)
        else:
            answered.set_result(answer.value)

    async def _answer(self, call: Call) -> None:
        try:
            answer = Answer(call.number, await self.methods[call.method](call.argument))
        except Exception:
            log.exception("%s failed, which another process of this server has called", call.method)
            answer = Answer(call.number, None, has_failed=True)
        self.pipe.send(answer)


class ApiEnd(PipeEnd):
    """The API process's end: the requests of its `PipedEngine`s. `update` gets the engines'
    statuses, and returns the digests of the models that requests need."""

    def __init__(
        self, connection: Connection, update: Callable[[Statuses], frozenset[str]], methods: Methods
    ) -> None:
        super().__init__(connection, "main-process", methods)
        self.update = update
        self.request_ids = itertools.count()  # a request has one id, whatever its model
        self.jobs: dict[int, Job] = {}  # that the main process may send events of

    def submit(self, model: str, job: Job) -> None:
        """Have a job done; it receives its events until it has ended or is cancelled."""
        self.jobs[job.id] = job
        self.pipe.send(Submit(model, job.request))

    def cancel(self, job: Job) -> None:
        """Cancel a job where it has not ended; it receives no event any more."""
        if self.jobs.pop(job.id, None) is not None and not job.has_ended:
            self.pipe.send(Cancel(job.id))

    def _receive(self, message: Statuses | Event) -> None:
        if isinstance(message, dict):
            self.pipe.send(Alive(self.update(message)))
        elif job := self.jobs.get(message.request):  # type: ignore[union-attr]  # those without one are not relayed
            is_unneeded = job.deliver(message)
            if job.has_ended:
                del self.jobs[job.id]
            if is_unneeded:
                self.pipe.send(Cancel(job.id))


class MainEnd(PipeEnd):
    """The main process's end: has the requests of one API process done by the
    engines, and relays their events.
    """

    def __init__(self, connection: Connection, find_engine: FindEngine, methods: Methods) -> None:
        super().__init__(connection, "api-process", methods)
        self.find_engine = find_engine
        self.is_up = False  # whether the process has answered once
        # of models that its requests need, submitted or not
        self.digests: frozenset[str] = frozenset()
        # with their models, by their ids there
        self.jobs: dict[int, tuple[str, RelayJob, ExitStack]] = {}

    def images(self, model: str) -> int:
        """Return its images of a model that are not painted, each counted
        as many times as it takes slots.
        """
        return sum(job.slots_left for name, job, _ in self.jobs.values() if name == model)

    async def closed(self) -> None:
        """Return once the process has ended; its requests and calls are cancelled then."""
        await self.pipe.closed.wait()
        for request in list(self.jobs):
            self._cancel(request)
        for task in self.tasks:
            task.cancel()

    def _receive(self, message: Submit | Cancel | Alive) -> None:
        match message:
            case Submit():
                try:
                    self._submit(message.model, message.request)
                except Exception:
                    self.jobs.pop(message.request.id, None)
                    self.pipe.send(Failed(message.request.id, STOPPED))
                    raise
            case Cancel():
                self._cancel(message.request)
            case Alive():
                self.is_up = True
                self.digests = message.digests

    def _submit(self, model: str, request: Request) -> None:
        engine = self.find_engine(model, request.digest)
        if engine is None:
            self.pipe.send(Failed(request.id, MODEL_CHANGED, "model_changed"))
            return
        job = RelayJob(request, next(engine.request_ids), lambda event: self._send(job, event))
        with ExitStack() as stack:
            try:
                stack.enter_context(engine.held())
            except EngineUnavailableError:
                self.pipe.send(Failed(request.id, STOPPED))
                return
            # Before `run` as well: it may fail the job at once, which `_send` then removes.
            self.jobs[request.id] = model, job, stack
            stack.enter_context(engine.run(job))
            self.jobs[request.id] = model, job, stack.pop_all()

    def _send(self, job: RelayJob, event: Event) -> None:
        self.pipe.send(event)
        if job.has_ended:  # removed later: the engine's handle is among its jobs now
            self.pipe.loop.call_soon(self._cancel, job.sender_id)

    def _cancel(self, request: int) -> None:
        if request in self.jobs:
            *_, stack = self.jobs.pop(request)
            stack.close()


class PipedEngine(RemoteEngine):
    """An API process's handle of an engine of its main process."""

    def __init__(
        self, model: str, status: EngineStatus, limits: QueueLimits, sharers: int, main: ApiEnd
    ) -> None:
        super().__init__(status.options, limits, sharers)
        self.model = model
        self.main = main
        self.request_ids = main.request_ids
        self.take(status)

    def take(self, status: EngineStatus) -> None:
        """Take in a newer status."""
        self.update([status], status.others)
        self.ready = status.ready
        self.load_error = status.load_error
        self.failure_reason = status.failure_reason
        if status.has_failed:
            self.failed.set()

    @property
    def is_ready(self) -> bool:
        """Whether the engine could paint at the last status, which is not old."""
        return super().is_ready and self.heartbeat_age <= SILENT_SECONDS

    @property
    def directory(self) -> Path:
        """Directory of the files of the served model."""
        return self.known[0].directory

    @property
    def admitted_slots(self) -> int:
        """This process's share of the slots."""
        return max(1, int(self.share))

    def _begin(self, job: Job) -> None:
        if self.failed.is_set():
            job.receive(Failed(job.id, STOPPED))
        else:
            self.main.submit(self.model, job)

    def _leave(self, job: Job) -> None:
        self.main.cancel(job)
