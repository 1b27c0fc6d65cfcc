"""One job on a websocket, from its `started` message to its `done`
or `error`, and its line in the log.

While a frame waits for a client that reads slowly, what is painted is merged into the next frame.
"""

import itertools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fastapi import WebSocketDisconnect
from structlog.contextvars import bind_contextvars

from scanline.server.api.base.cancellation import deadline
from scanline.server.api.base.errors import from_exception
from scanline.server.api.base.loop_time import LoopTime, measured
from scanline.server.api.base.rate_limit import FrameThrottle
from scanline.server.api.base.tracing import job_span
from scanline.server.api.jobs import changes, paint_task, running
from scanline.server.api.payload.image_output import image_metadata, size_of
from scanline.server.api.payload.pictures import UploadedPictures
from scanline.server.api.payload.schemas import EditRequest, PaintFields, PictureFields
from scanline.server.api.routes.state_snapshot import requested_state, state_message
from scanline.server.api.routes.websocket_messages import JobId, Sender
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
        await measured(self._run(name, fields), LoopTime(self.sender.overhead.charge))

    async def _run(self, name: JobId, fields: PaintFields) -> None:
        began = time.monotonic()
        ended = "cancelled"
        with job_span():
            try:
                async with self.lifecycle.interruptible(), deadline(self.models.request_timeout):
                    await self._paint(name, fields)
                ended = "done"
                self.sender.overhead.has_worked = True
            except WebSocketDisconnect:
                ended = "disconnected"
            except Exception as exception:
                ended = "failed"
                error = from_exception(exception)
                bind_contextvars(error=error.code)
                await self.sender.error(name, error)
            finally:
                kind = "complete" if isinstance(fields, EditRequest) else "generate"
                seconds = round(time.monotonic() - began, 6)
                ended = "disconnected" if self.is_disconnected else ended
                log.info("job", extra={"type": kind, "seconds": seconds, "ended": ended})

    async def _paint(self, name: JobId, fields: PaintFields) -> None:
        model, task = paint_task(self.models, fields)
        size_of(fields, model.config, task.count, resize=False)
        state = requested_state(fields, model)
        config = model.config
        sender = self.sender
        number = next(self.numbers)
        sent = 0  # bytes
        bind_contextvars(job=number, bytes=0)
        task.request = replace(task.request, stream=True, snapshot=state)
        pictures = (
            UploadedPictures(model, fields, resize=False)
            if isinstance(fields, PictureFields)
            else None
        )
        async with running(self.models, model, task, pictures) as job:
            started = {
                "type": "started",
                "id": name,
                "job": number,
                "model": model.id,
                "n": task.count,
            }
            size = {"height": config.height, "width": config.width, "channels": config.channels}
            await sender.message({**started, **size, **task.drawn, **task.used})
            async for _ in changes(job, task):
                part = task.take()
                for row, first, data in part.frames:
                    await sender.frame(number, row, first, data)
                    sent += len(data)
                bind_contextvars(bytes=sent)
                if part.snapshot:
                    await sender.message(state_message(name, part.snapshot))
                for row in part.finished:
                    await sender.message(
                        {"type": "image", "id": name, "index": row, **image_metadata(task, row)}
                    )
                await self.throttle.pause(len(part.frames))
        await sender.message({"type": "done", "id": name})
