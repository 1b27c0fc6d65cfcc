"""Messages of the websocket: parsing those that a client sends, and sending ours, one at a time."""

import asyncio
import json
import struct
from dataclasses import dataclass, field
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect
from fastapi.websockets import WebSocketState

from scanline.model.base.inputs import InvalidInput
from scanline.server.api.base.errors import ApiError, quoted
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.middleware.overhead import ClientOverhead
from scanline.server.api.payload import json_object
from scanline.server.api.payload.schemas import EditRequest, PaintFields, StreamedGenerationRequest
from scanline.server.api.payload.uploads import from_json, json_limits, max_message_bytes
from scanline.server.models.registry import ModelRegistry

JobId = int | str  # the client's own name of a job

MAX_ID_CHARACTERS = 256  # each message about a job repeats its id
# sent on a websocket before the event loop runs anything else: a millisecond
MESSAGES_PER_TURN = 32
# job number, image index, first byte position; the bytes follow
FRAME_HEADER = struct.Struct("<III")


async def parse_object(text: str | None, models: ModelRegistry) -> dict[str, Any]:
    """Return a message's JSON object; raises ApiError if it is none, or larger
    than any job for the models needs.
    """
    if text is None:
        raise ApiError("invalid_json", "Messages must be text, not binary.")
    document = text.encode()
    limit = max_message_bytes(models)
    if len(document) > limit:
        raise ApiError("message_too_large", f"The message is larger than {limit} bytes.")
    return await json_object.parse_object(document, json_limits(models), "message")


def pop_id(message: dict[str, Any]) -> JobId | None:
    """Take the id out of a message; raises InvalidInput if it is not one."""
    name = message.pop("id", None)
    is_number = type(name) is int and abs(name) < 2**63
    if name is None or is_number or (type(name) is str and len(name) <= MAX_ID_CHARACTERS):
        return name
    raise InvalidInput(
        f"id must be a whole number of 64 bits or text of at most {MAX_ID_CHARACTERS} characters.",
        "id",
    )


async def parse_job(kind: Any, message: dict[str, Any], models: ModelRegistry) -> PaintFields:
    """Return the fields of a `generate` or `complete` message;
    raises InvalidInput if one is wrong.
    """
    if kind == "generate":
        json_object.check_names(message, StreamedGenerationRequest)
        fields: PaintFields = StreamedGenerationRequest.model_validate(message)
    elif kind == "complete":
        fields = await from_json(message, EditRequest, models)
    else:
        raise InvalidInput(
            f"type must be generate, complete or cancel, not {quoted(kind)}.", "type"
        )
    if fields.stream:
        reason = "stream applies to POST requests only; a websocket always streams, leave it out."
        raise InvalidInput(reason, "stream", "stream_not_supported")
    if fields.size_policy == "resize":
        raise InvalidInput(
            "size_policy must be exact: a websocket sends the model's own pixels.", "size_policy"
        )
    fields.refuse_film("a websocket sends pixels as they are painted, leave it out")
    return fields


@dataclass(eq=False)
class Sender:
    """Send messages of all jobs of a websocket, one after the other."""

    socket: WebSocket
    counters: HttpCounters
    overhead: ClientOverhead
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    sent: int = 0  # messages, frames included

    async def frame(self, job: int, index: int, first: int, data: bytes) -> None:
        """Send bytes of an image, from position `first` on."""
        async with self.lock:
            self._check_open()
            await self.socket.send_bytes(FRAME_HEADER.pack(job, index, first) + data)
            await self._let_others_run()

    async def message(self, message: dict[str, Any]) -> None:
        """Send one message; WebSocketDisconnect where the websocket is closed, as for frames."""
        async with self.lock:
            self._check_open()
            await self.socket.send_text(json.dumps(message))
            await self._let_others_run()

    async def error(self, name: JobId | None, error: ApiError) -> None:
        """Count an error and send it, with the id of the job or message that it is about."""
        self.counters.errors[error.code] += 1
        self.overhead.charge(1)
        about = {} if name is None else {"id": name}
        try:
            await self.message({"type": "error", **about, **error.body})
        except WebSocketDisconnect:  # the client disconnected in the meantime
            return

    def _check_open(self) -> None:
        """Raise WebSocketDisconnect where the client, or another job, has closed the websocket."""
        if self.socket.application_state is WebSocketState.DISCONNECTED:
            raise WebSocketDisconnect(1006)

    async def _let_others_run(self) -> None:
        """Give up the event loop now and then: sending does not, as long as the client reads."""
        self.sent += 1
        if not self.sent % MESSAGES_PER_TURN:
            await asyncio.sleep(0)
