"""One job on a websocket, from its `started` message to its `done` or `error`, and its line in the log.

While a frame waits for a client that reads slowly, what is painted is merged into the next frame.
"""

import itertools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from fastapi import WebSocketDisconnect
from structlog.contextvars import bind_contextvars

from scanline.server.api.cancellation import deadline
from scanline.server.api.client import client_of
from scanline.server.api.errors import from_exception
from scanline.server.api.jobs import facts, image_count, paint_request, painting
from scanline.server.api.payload.image_output import image_output
from scanline.server.api.payload.schemas import EditRequest, PaintFields
from scanline.server.api.rate_limit import FrameThrottle
from scanline.server.api.routes.state_snapshot import requested_state, state_message
from scanline.server.api.routes.websocket_messages import JobId, Sender
from scanline.server.api.tracing import job_span
from scanline.server.models.registry import ModelRegistry
from scanline.server.runtime.lifecycle import Lifecycle

log = logging.getLogger("scanline.requests")


@dataclass
class JobRunner:
    """Run the jobs of one websocket."""

    models: ModelRegistry
    lifecycle: Lifecycle
    throttle: FrameThrottle
    sender: Sender
    numbers: Iterator[int] = field(default_factory=itertools.count)  # of its jobs, in frames
    is_disconnected: bool = False  # set by the connection: the websocket is closed, by either side

    async def run(self, name: JobId, fields: PaintFields) -> None:
        """Run one job until its last message is sent; cancelling it sends none."""
        began, ended = time.monotonic(), "cancelled"
        with job_span():
            try:
                async with self.lifecycle.interruptible(), deadline(self.models.request_timeout):
                    await self._paint(name, fields)
                ended = "done"
                self.sender.overhead.has_worked = True
            except WebSocketDisconnect:
                ended = "disconnected"
            except Exception as exception:
                error, ended = from_exception(exception), "failed"
                bind_contextvars(error=error.code)
                await self.sender.error(name, error)
            finally:
                kind = "complete" if isinstance(fields, EditRequest) else "generate"
                seconds = round(time.monotonic() - began, 6)
                ended = "disconnected" if self.is_disconnected else ended
                log.info("job", extra={"type": kind, "seconds": seconds, "ended": ended})

    async def _paint(self, name: JobId, fields: PaintFields) -> None:
        model = self.models.usable(fields.model)
        n = image_count(fields, self.models)
        image_output(fields, model.config, n, resize=False)
        client = client_of(self.sender.socket.scope).id
        state = requested_state(fields, model, client)
        config, sender, number, sent = model.config, self.sender, next(self.numbers), 0
        bind_contextvars(job=number, bytes=0)
        wanted = paint_request(model, fields, n, client, stream=True, snapshot=state)
        async with painting(self.models, model, wanted, fields) as (wanted, job, _):
            started = {"type": "started", "id": name, "job": number, "model": model.id, "n": n}
            size = {"height": config.height, "width": config.width, "channels": config.channels}
            used = {"seed": wanted.seed, "temperature": wanted.temperature, "guidance": wanted.guidance}
            await sender.message({**started, **size, **used})
            async for update in job.updates():
                for index, first, data in update.frames:
                    await sender.frame(number, index, first, data)
                    sent += len(data)
                bind_contextvars(bytes=sent)
                if update.snapshot:
                    await sender.message(state_message(name, update.snapshot))
                for index in update.finished:
                    await sender.message({"type": "image", "id": name, "index": index, **facts(job, index, config)})
                await self.throttle.pause(len(update.frames))
        await sender.message({"type": "done", "id": name})
