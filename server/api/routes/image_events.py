"""The response to `stream: true`: server-sent events as the official client reads them.

An error before the first byte is an ordinary error response, a later one an `error` event. A client
that reads slowly misses partial images, never a completed one, and does not delay other requests.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.model.tasks.paint import PaintTask
from scanline.server.api.base.cancellation import deadline, until_disconnect
from scanline.server.api.base.errors import ApiError, ClientGoneError, from_exception
from scanline.server.api.jobs import changes, running
from scanline.server.api.payload import offload
from scanline.server.api.payload.answers import start_message
from scanline.server.api.payload.image_output import ImageOutput, image_metadata, seed_headers
from scanline.server.api.payload.partial_images import PartialImages
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.api.payload.response_schemas import Usage
from scanline.server.api.payload.schemas import (
    DecodingRequest,
    EditRequest,
    GenerationRequest,
    OutputFields,
)
from scanline.server.api.payload.sse import send_with_pings, sse_event
from scanline.server.engine.job import Job
from scanline.server.models.registry import ModelRegistry, ServedModel

ERROR_EVENT_SECONDS = 5.0  # for a client to take an error event
KINDS = {
    EditRequest: "image_edit",
    GenerationRequest: "image_generation",
    DecodingRequest: "image_decoding",
}
PING_SECONDS = 15.0  # proxies close an idle connection after 30 or more


@dataclass(eq=False)
class EventStream(Response):
    """A response that paints while it is sent; its reservation and its job end with it."""

    request: Request
    models: ModelRegistry
    model: ServedModel
    task: PaintTask
    fields: OutputFields
    output: ImageOutput
    pictures: UploadedPictures | None

    def __post_init__(self) -> None:
        super().__init__()
        self.kind = next(name for kind, name in KINDS.items() if isinstance(self.fields, kind))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_partials = bool(self.fields.partial_images)
        self.task.request = replace(
            self.task.request, stream=has_partials, provisional=has_partials
        )
        failure = None
        try:
            async with until_disconnect(self.request), AsyncExitStack() as stack:
                async with deadline(self.models.request_timeout):
                    work = running(self.models, self.model, self.task, self.pictures)
                    job = await stack.enter_async_context(work)
                uploaded = self.pictures.resized if self.pictures else ()
                self.output = self.output.of(self.task, self.model, uploaded)
                failure = await self._respond(send, job, stack)
        except ClientGoneError:
            return
        if failure is not None:
            bind_contextvars(error=failure.code)
        # the room is free once the client has the last byte
        await send({"type": "http.response.body", "body": b""})

    async def _respond(self, send: Send, job: Job, work: AsyncExitStack) -> ApiError | None:
        """Send the response but its end; an error ends the work, is sent
        as the last event, and returned.
        """
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
            **seed_headers(self.task),
            **self.output.headers,
        }
        await send(start_message(headers))
        failure = None
        async with send_with_pings(send, PING_SECONDS) as ping_send:
            try:
                async with deadline(self.models.request_timeout):
                    await self._paint(ping_send, job)
            except Exception as error:
                failure = from_exception(error)
                await work.aclose()
                try:
                    async with asyncio.timeout(ERROR_EVENT_SECONDS):
                        await _send_event(ping_send, "error", failure.body)
                except TimeoutError:  # the client does not read
                    raise ClientGoneError from None
        return failure

    async def _paint(self, send: Send, job: Job) -> None:
        config = self.model.config
        task = self.task
        shown = task.shown
        partials = await offload.run(lambda: PartialImages(task, self.fields.partial_images or 0))
        async for _ in changes(job, task):
            part = task.take()
            for row in sorted(
                {*(row for row, _, _ in part.frames), *part.provisional} & shown.keys()
            ):
                for number, picture, is_provisional in partials.due(row):
                    event = await self._event("partial_image", row, picture)
                    event["partial_image_index"] = number
                    if is_provisional:
                        event["provisional"] = True
                    if await _send_event(send, event["type"], event):
                        partials.merge()
            for row in part.finished:
                if row not in shown:
                    continue
                metadata = {"index": shown[row], **image_metadata(task, row)}
                picture = task.images[row].reshape(config.image_shape)
                event = await self._event("completed", row, picture, metadata)
                size = config.bytes * task.request.candidates_of(row)
                usage = Usage.of(task.request.known_bytes_of(row), size).model_dump()
                event |= {**task.used, **metadata, "usage": usage}
                if await _send_event(send, event["type"], event):
                    partials.merge()

    async def _event(
        self, name: str, row: int, picture: np.ndarray, metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the fields that partial_image and completed have in common. metadata: of a
        finished image. A WebP takes milliseconds to encode.
        """
        encoding = offload.run_long if self.output.takes_long else offload.run
        return {
            "type": f"{self.kind}.{name}",
            "b64_json": await encoding(lambda: self.output.base64(picture, None, metadata)),
            "created_at": int(time.time()),
            **self.output.fields,
            "background": "opaque",
            "quality": "auto",
            "index": self.task.shown[row],
            **self.task.drawn,
        }


async def _send_event(send: Send, name: str, data: dict[str, Any]) -> bool:
    """Send an event; return True if the connection did not take it at
    once, because its client is behind.
    """
    task = asyncio.ensure_future(
        send({"type": "http.response.body", "body": sse_event(name, data), "more_body": True})
    )
    try:
        await asyncio.sleep(0)  # one turn of the event loop: enough for a send that need not wait
        is_behind = not task.done()
        await task
        return is_behind
    finally:
        task.cancel()
