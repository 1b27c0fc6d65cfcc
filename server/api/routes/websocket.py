"""The websocket /v1/images/stream: jobs that run side by side on one connection, told as they are painted.

A bad message gets an error message and the connection lives on. A slow reader costs nobody anything: while a
frame of its job waits to be sent, what is painted is merged into the next one.
"""

import asyncio
import itertools
import json
import logging
import struct
import time
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState
from structlog.contextvars import bind_contextvars

from scanline.model.inputs import InvalidInput
from scanline.server.api.deadline import deadline
from scanline.server.api.errors import ApiError, from_exception
from scanline.server.api.jobs import finite_or_null, painting
from scanline.server.api.middleware.draining import closed
from scanline.server.api.middleware.http_metrics import HttpCounters
from scanline.server.api.rate_limit import FramePace, Pace
from scanline.server.api.routes.state_snapshot import told_of, watched_by
from scanline.server.api.schemas import EditRequest, PaintFields, StreamedGenerationRequest
from scanline.server.api.tracing import job_span
from scanline.server.api.uploads import from_json
from scanline.server.lifecycle import Lifecycle
from scanline.server.registry import ModelRegistry
from scanline.server.settings import Settings

log = logging.getLogger("scanline.requests")

TURN = 32  # messages that came together and are taken before all else on the event loop has its turn
SUBPROTOCOL = "scanline"  # browsers that show a key as a second one want one to be taken
LONGEST_ID = 256  # characters: each message about a job repeats them
FRAME = struct.Struct("<III")  # job, image index, first byte position; then the bytes


def router(models: ModelRegistry, settings: Settings, lifecycle: Lifecycle, counters: HttpCounters) -> APIRouter:
    """The websocket route over `models`, as the settings limit it; errors of its jobs go into the counters."""
    routes = APIRouter()
    frames = FramePace(settings.max_frames_per_second)

    @routes.websocket("/v1/images/stream")
    async def stream(socket: WebSocket) -> None:
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None)
        await Connection(socket, models, settings, lifecycle, counters, frames).run()

    return routes


class Connection:
    """One websocket: reads messages until it closes; its jobs end with it."""

    def __init__(
        self,
        socket: WebSocket,
        models: ModelRegistry,
        settings: Settings,
        lifecycle: Lifecycle,
        counters: HttpCounters,
        frames: FramePace,
    ) -> None:
        self.socket, self.models, self.settings = socket, models, settings
        self.lifecycle, self.counters, self.frames = lifecycle, counters, frames
        self.jobs: dict[int | str, asyncio.Task[None]] = {}
        self.ids = itertools.count()
        self.numbers = itertools.count()
        self.sending = asyncio.Lock()
        self.is_over = False

    async def run(self) -> None:
        """Returns when the client has gone, or was sent away, and nothing of its work is left."""
        leaving = asyncio.create_task(self._leave())
        try:
            pace, taken = Pace(self.settings.max_messages_per_second), 0
            while (message := await self.socket.receive())["type"] == "websocket.receive":
                if not pace.allows_one_more():
                    await self._close_on_flood()
                    return
                await self._take(message.get("text"))
                taken += 1
                if not taken % TURN:
                    await asyncio.sleep(0)
        except WebSocketDisconnect:
            pass
        finally:
            self.is_over = True
            leaving.cancel()
            await self._end_jobs()

    async def _end_jobs(self) -> None:
        jobs = list(self.jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _leave(self) -> None:
        """Sends the client away once the server drains and its last job here is done."""
        await self.lifecycle.draining.wait()
        while self.jobs:
            await asyncio.wait(self.jobs.values())
        with suppress(WebSocketDisconnect, RuntimeError):  # it has gone by itself
            await self.socket.close(1001, "The server is shutting down.")

    async def _close_on_flood(self) -> None:
        message = f"More than {self.settings.max_messages_per_second} messages a second came; the websocket is closed."
        await self._end_jobs()
        await self._tell_error(None, ApiError(429, message, code="too_many_messages"))
        with suppress(WebSocketDisconnect, RuntimeError):  # it has gone by itself
            await self.socket.close(1008, "too many messages")

    async def _take(self, text: str | None) -> None:
        """One message from the client."""
        name: int | str | None = None
        try:
            message = _object(text)
            name = _name(message)
            match message.pop("type", None):
                case "generate":
                    self._begin(name, StreamedGenerationRequest.model_validate(message))
                case "complete":
                    self._begin(name, from_json(message, EditRequest, self.models.max_images))
                case "cancel":
                    await self._cancel(name)
                case other:
                    raise InvalidInput(f"type must be generate, complete or cancel, not {other!r}.", "type")
        except WebSocketDisconnect:
            raise
        except Exception as error:
            await self._tell_error(name, from_exception(error))

    def _begin(self, name: int | str | None, fields: PaintFields) -> None:
        """Starts a job beside the others."""
        if self.lifecycle.draining.is_set():
            raise closed()
        if fields.stream:
            message = "stream is for POST; a websocket tells pixels as they come, leave it out."
            raise InvalidInput(message, "stream", "stream_not_supported")
        if name in self.jobs:
            raise InvalidInput(f"id {name!r} is of a job that still runs.", "id")
        if len(self.jobs) >= self.settings.max_jobs_per_websocket:
            message = f"{len(self.jobs)} jobs run on this websocket, as many as may; wait until one is done."
            raise ApiError(429, message, code="too_many_jobs")
        if name is None:
            name = next(number for number in self.ids if number not in self.jobs)
        self.jobs[name] = job = asyncio.create_task(self._work(name, fields))
        job.add_done_callback(lambda _: self.jobs.pop(name))  # also where it is cancelled before it began

    async def _cancel(self, name: int | str | None) -> None:
        """Ends a job early; its `done` says so."""
        job = None if name is None else self.jobs.get(name)
        if job is None or job.done():  # done: it has told its last message
            raise InvalidInput(f"There is no running job with id {name!r}.", "id", "job_not_found")
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        await self._tell({"type": "done", "id": name, "cancelled": True})

    async def _work(self, name: int | str, fields: PaintFields) -> None:
        """A job from its start to its one last message, and its line in the log."""
        began, ended = time.monotonic(), "cancelled"
        with job_span():
            try:
                async with self.lifecycle.work(), deadline(self.models.request_timeout):
                    await self._paint(name, fields)
                ended = "done"
            except WebSocketDisconnect:
                ended = "departed"
            except Exception as error:
                if self.socket.application_state is WebSocketState.DISCONNECTED:  # as another job here has heard
                    ended = "departed"
                else:
                    told, ended = from_exception(error), "failed"
                    bind_contextvars(error=told.code)
                    await self._tell_error(name, told)
            finally:
                kind = "complete" if isinstance(fields, EditRequest) else "generate"
                facts = {"type": kind, "seconds": round(time.monotonic() - began, 6)}
                log.info("job", extra={**facts, "ended": "departed" if self.is_over else ended})

    async def _paint(self, name: int | str, fields: PaintFields) -> None:
        model = self.models.usable(fields.model)
        images = self.models.count(fields, model)
        config, number, sent = model.config, next(self.numbers), 0
        watched = watched_by(fields, model)
        bind_contextvars(job=number, bytes=0)
        async with painting(model, fields, images, stream=True, snapshot=watched) as (request, job):
            started = {"type": "started", "id": name, "job": number, "model": model.id, "n": images}
            size = {"height": config.height, "width": config.width, "channels": config.channels}
            await self._tell({**started, **size, "seed": request.seed})
            async for news in job.updates():
                for index, first, data in news.frames:
                    async with self.sending:
                        await self.socket.send_bytes(FRAME.pack(number, index, first) + data)
                    sent += len(data)
                bind_contextvars(bytes=sent)
                if news.snapshot:
                    await self._tell({"type": "trace", "id": name, **told_of(news.snapshot)})
                for index, bits in news.finished:
                    ended = {"type": "image", "id": name, "index": index, "bits_per_dim": finite_or_null(bits)}
                    await self._tell(ended)
                await self.frames.sent(len(news.frames))
        await self._tell({"type": "done", "id": name})

    async def _tell(self, message: dict[str, Any]) -> None:
        async with self.sending:
            await self.socket.send_text(json.dumps(message))

    async def _tell_error(self, name: int | str | None, error: ApiError) -> None:
        self.counters.errors[error.code or "other"] += 1
        about = {} if name is None else {"id": name}
        try:
            await self._tell({"type": "error", **about, **error.body})
        except (WebSocketDisconnect, RuntimeError):  # the client has gone in the meantime
            return


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        raise ApiError(400, "Messages must be text, not binary.", code="invalid_json")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise ApiError(400, "The message is not valid JSON.", code="invalid_json") from None
    if not isinstance(message, dict):
        raise ApiError(400, "The message must be a JSON object.", code="invalid_body")
    return message


def _name(message: dict[str, Any]) -> int | str | None:
    name = message.pop("id", None)
    if name is None or type(name) is int or (type(name) is str and len(name) <= LONGEST_ID):
        return name
    raise InvalidInput(f"id must be a whole number or text of at most {LONGEST_ID} characters.", "id")
