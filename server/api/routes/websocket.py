"""The websocket /v1/images/stream: many jobs at once on one
connection, streamed as they are painted.

An invalid message is answered by an error message, and the connection stays open. A client that
reads slowly delays only its own jobs.
"""

import asyncio
import itertools
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from scanline.model.base.inputs import InvalidInput
from scanline.server.api.base.errors import ApiError, from_exception, quoted
from scanline.server.api.base.loop_time import LoopTime, current, measured
from scanline.server.api.base.rate_limit import BYTES_PER_UNIT, FrameThrottle, TokenBucket
from scanline.server.api.middleware.draining import shutting_down
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.middleware.overhead import OVERHEAD
from scanline.server.api.payload.schemas import PaintFields
from scanline.server.api.routes.websocket_job import JobRunner
from scanline.server.api.routes.websocket_messages import (
    JobId,
    Sender,
    parse_job,
    parse_object,
    pop_id,
)
from scanline.server.models.registry import ModelRegistry
from scanline.server.runtime.lifecycle import Lifecycle
from scanline.server.settings import Settings

# messages that came together and are handled before the event loop runs anything else
MESSAGES_PER_TURN = 32
# a browser that offers a key as a second subprotocol expects one to be accepted
SUBPROTOCOL = "scanline"


def router(
    models: ModelRegistry, settings: Settings, lifecycle: Lifecycle, counters: HttpCounters
) -> APIRouter:
    """Return the websocket route over `models`; errors of its jobs are counted in `counters`."""
    routes = APIRouter()
    throttle = FrameThrottle(settings.max_frames_per_second)

    @routes.websocket("/v1/images/stream")
    async def stream(socket: WebSocket) -> None:
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None)
        runner = JobRunner(
            models, lifecycle, throttle, Sender(socket, counters, socket.scope[OVERHEAD])
        )
        with current().paused():  # each message and job is measured by itself
            await Connection(socket, settings, runner).run()

    return routes


class Connection:
    """One websocket: handles its messages until it closes; its jobs end with it."""

    def __init__(self, socket: WebSocket, settings: Settings, runner: JobRunner) -> None:
        self.socket = socket
        self.settings = settings
        self.runner = runner
        self.lifecycle = runner.lifecycle
        self.sender = runner.sender
        self.jobs: dict[JobId, asyncio.Task[None]] = {}  # those that are running
        self.unused_ids = itertools.count()

    async def run(self) -> None:
        """Return when the websocket is closed, by either side, and its jobs have ended."""
        closing = asyncio.create_task(self._close_when_drained())
        try:
            await self._handle_messages()
        except WebSocketDisconnect:
            pass
        finally:
            self.runner.is_disconnected = True
            closing.cancel()
            await self._end_jobs()

    async def _handle_messages(self) -> None:
        bucket = TokenBucket(self.settings.max_messages_per_second)
        handled = 0
        while (message := await self.socket.receive())["type"] == "websocket.receive":
            if not bucket.take():
                await self._close_on_flood()
                return
            await self.sender.overhead.wait()
            text = message.get("text")
            await measured(
                self._handle(text), LoopTime(self.sender.overhead.charge, len(text or ""))
            )
            # Messages that are there already are received without
            # waiting: let other tasks run now and then.
            handled += 1
            if not handled % MESSAGES_PER_TURN:
                await asyncio.sleep(0)

    async def _handle(self, text: str | None) -> None:
        """Handle one message; an error is sent back, with the
        message's id if that could be read.
        """
        name: JobId | None = None
        try:
            message = await parse_object(text, self.runner.models)
            name = pop_id(message)
            kind = message.pop("type", None)
            if kind == "cancel":
                await self._cancel(name)
            else:
                await self._start(name, kind, message)
        except WebSocketDisconnect:
            raise
        except Exception as error:
            self.sender.overhead.charge(len(text or "") / BYTES_PER_UNIT)
            await self.sender.error(name, from_exception(error))

    async def _start(self, name: JobId | None, kind: Any, message: dict[str, Any]) -> None:
        fields: PaintFields = await parse_job(kind, message, self.runner.models)
        if self.lifecycle.draining.is_set():
            raise shutting_down()
        if name in self.jobs:
            raise InvalidInput(f"id {quoted(name)} belongs to a job that is still running.", "id")
        if len(self.jobs) >= self.settings.max_jobs_per_websocket:
            reason = f"{len(self.jobs)} jobs are running on this websocket, the maximum; wait until one is done."
            raise ApiError("too_many_jobs", reason)
        if name is None:
            name = next(number for number in self.unused_ids if number not in self.jobs)
        self.jobs[name] = job = asyncio.create_task(self.runner.run(name, fields))
        # A callback and not a line in the task: a task that is
        # cancelled before its first step never runs.
        job.add_done_callback(lambda _: self.jobs.pop(name))

    async def _cancel(self, name: JobId | None) -> None:
        """End a job early; its `done` message says so."""
        job = None if name is None else self.jobs.get(name)
        # done: its last message is sent, and its callback not called yet
        if job is None or job.done():
            raise InvalidInput(
                f"There is no running job with id {quoted(name)}.", "id", "job_not_found"
            )
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        self.sender.overhead.charge(1)
        await self.sender.message({"type": "done", "id": name, "cancelled": True})

    async def _end_jobs(self) -> None:
        jobs = list(self.jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _close_when_drained(self) -> None:
        """Close the websocket once the server drains and its last job is done."""
        await self.lifecycle.draining.wait()
        while self.jobs:
            await asyncio.wait(self.jobs.values())
        with suppress(WebSocketDisconnect, RuntimeError):  # the client has closed it already
            await self.socket.close(1001, "The server is shutting down.")

    async def _close_on_flood(self) -> None:
        limit = self.settings.max_messages_per_second
        error = ApiError("too_many_messages", f"More than {limit} messages per second; closing.")
        await self._end_jobs()
        await self.sender.error(None, error)
        with suppress(WebSocketDisconnect, RuntimeError):  # the client has closed it already
            await self.socket.close(1008, "too many messages")
