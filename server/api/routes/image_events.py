"""The answer to `stream: true`: server-sent events as the official client reads them.

What is wrong before the first byte is an ordinary error; what fails later is an `error` event. A reader that is
behind misses partial images, never a completed one, and holds up nobody.
"""

import asyncio
import time
from typing import Any

import numpy as np
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.model.pictures import to_base64
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.api.deadline import deadline
from scanline.server.api.disconnect import ClientGoneError, unless_gone
from scanline.server.api.errors import ApiError, from_exception
from scanline.server.api.jobs import finite_or_null, painting
from scanline.server.api.keep_alive import kept_alive
from scanline.server.api.partial_images import PartialImages
from scanline.server.api.schemas import EditRequest, PaintFields, Usage
from scanline.server.api.sse import server_sent
from scanline.server.engine.client.job import Job
from scanline.server.registry import ServedModel

LAST_WORD_SECONDS = 5.0  # to take a failure's event
PING_SECONDS = 15.0  # proxies wait for 30 and more


class EventStream(Response):
    """Paints when it is sent; its room in the queue and its job end with it."""

    def __init__(self, request: Request, model: ServedModel, images: int, fields: PaintFields, timeout: float) -> None:
        super().__init__()
        self.request, self.model, self.images, self.fields, self.timeout = request, model, images, fields, timeout
        self.kind = "image_edit" if isinstance(fields, EditRequest) else "image_generation"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        partial = bool(self.fields.partial_images)
        async with painting(self.model, self.fields, self.images, stream=partial) as (wanted, job):
            try:
                failure = await unless_gone(self.request, self._answer(send, wanted, job))
            except ClientGoneError:
                return
            if failure is not None:
                bind_contextvars(error=failure.code)

    async def _answer(self, send: Send, wanted: GenerateRequest, job: Job) -> ApiError | None:
        """The whole answer, whatever it ends with: told in its last event, and returned, where it is a failure."""
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
            "x-scanline-seed": str(wanted.seed),
        }
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        failure = None
        async with kept_alive(send, PING_SECONDS) as tell:
            try:
                async with deadline(self.timeout):
                    await self._paint(tell, wanted, job)
            except Exception as error:
                failure = from_exception(error)
                try:
                    async with asyncio.timeout(LAST_WORD_SECONDS):
                        await _send(tell, "error", failure.body)
                except TimeoutError:  # a reader who does not read
                    raise ClientGoneError from None
        await send({"type": "http.response.body", "body": b""})
        return failure

    async def _paint(self, send: Send, wanted: GenerateRequest, job: Job) -> None:
        config = self.model.config
        partials = PartialImages(job, wanted, self.fields.partial_images or 0, config)
        async for news in job.updates():
            for index, _, _ in news.frames:
                for number, picture in partials.due(index):
                    event = self._event("partial_image", wanted, index, picture)
                    if await _send(send, event["type"], {**event, "partial_image_index": number}):
                        partials.merge()
            for index, bits in news.finished:
                event = self._event("completed", wanted, index, job.images[index].reshape(config.image_shape))
                usage = Usage.of(wanted.known_bytes_of(index), config.bytes).model_dump()
                if await _send(send, event["type"], {**event, "bits_per_dim": finite_or_null(bits), "usage": usage}):
                    partials.merge()

    def _event(self, name: str, wanted: GenerateRequest, index: int, picture: np.ndarray) -> dict[str, Any]:
        """What events of both names have."""
        output_format = self.fields.output_format
        return {
            "type": f"{self.kind}.{name}",
            "b64_json": to_base64(picture, output_format),
            "created_at": int(time.time()),
            "size": self.model.config.size,
            "output_format": output_format,
            "background": "opaque",
            "quality": "auto",
            "index": index,
            "seed": wanted.seed,
        }


async def _send(send: Send, name: str, data: dict[str, Any]) -> bool:
    """Sends an event; True where the connection did not take it at once: its reader is behind."""
    message = {"type": "http.response.body", "body": server_sent(name, data), "more_body": True}
    sending = asyncio.ensure_future(send(message))
    try:
        await asyncio.sleep(0)  # one turn of the loop: enough for a send that waits for nothing
        late = not sending.done()
        await sending
        return late
    finally:
        sending.cancel()
