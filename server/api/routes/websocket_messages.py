"""Messages of the websocket: parsing those that a client sends, and sending ours, one at a time."""

import asyncio
import json
import struct
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from scanline.model.inputs import InvalidInput
from scanline.server.api.errors import ApiError
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.schemas import EditRequest, PaintFields, StreamedGenerationRequest
from scanline.server.api.uploads import from_json

JobId = int | str  # the client's own name of a job

MAX_ID_CHARACTERS = 256  # each message about a job repeats its id
FRAME_HEADER = struct.Struct("<III")  # job number, image index, first byte position; the bytes follow


def parse_object(text: str | None) -> dict[str, Any]:
    """Return a message's JSON object; raises ApiError if it is none."""
    if text is None:
        raise ApiError(400, "Messages must be text, not binary.", code="invalid_json")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise ApiError(400, "The message is not valid JSON.", code="invalid_json") from None
    if not isinstance(message, dict):
        raise ApiError(400, "The message must be a JSON object.", code="invalid_body")
    return message


def pop_id(message: dict[str, Any]) -> JobId | None:
    """Take the id out of a message; raises InvalidInput if it is not one."""
    name = message.pop("id", None)
    if name is None or type(name) is int or (type(name) is str and len(name) <= MAX_ID_CHARACTERS):
        return name
    raise InvalidInput(f"id must be a whole number or text of at most {MAX_ID_CHARACTERS} characters.", "id")


def parse_job(kind: Any, message: dict[str, Any], max_images: int) -> PaintFields:
    """Return the fields of a `generate` or `complete` message; raises InvalidInput if one is wrong."""
    if kind == "generate":
        fields: PaintFields = StreamedGenerationRequest.model_validate(message)
    elif kind == "complete":
        fields = from_json(message, EditRequest, max_images)
    else:
        raise InvalidInput(f"type must be generate, complete or cancel, not {kind!r}.", "type")
    if fields.stream:
        reason = "stream applies to POST requests only; a websocket always streams, leave it out."
        raise InvalidInput(reason, "stream", "stream_not_supported")
    return fields


class Sender:
    """Sends messages of all jobs of a websocket, one after the other."""

    def __init__(self, socket: WebSocket, counters: HttpCounters) -> None:
        self.socket, self.counters = socket, counters
        self.lock = asyncio.Lock()

    async def frame(self, job: int, index: int, first: int, data: bytes) -> None:
        """Send bytes of an image, from position `first` on."""
        async with self.lock:
            await self.socket.send_bytes(FRAME_HEADER.pack(job, index, first) + data)

    async def message(self, message: dict[str, Any]) -> None:
        async with self.lock:
            await self.socket.send_text(json.dumps(message))

    async def error(self, name: JobId | None, error: ApiError) -> None:
        """Count an error and send it, with the id of the job or message that it is about."""
        self.counters.errors[error.code or "other"] += 1
        about = {} if name is None else {"id": name}
        try:
            await self.message({"type": "error", **about, **error.body})
        except (WebSocketDisconnect, RuntimeError):  # the client disconnected in the meantime
            return
