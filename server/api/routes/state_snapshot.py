"""State snapshots on the websocket: (s, z) of one layer and head
while a job's first image is painted.

Requested by the field `state: [layer, head]`, sent as messages of type `state`.
"""

from base64 import b64encode
from typing import Any

from scanline.model.sampling.base.messages import StateSnapshot
from scanline.model.tasks.inspect import check_layer_and_head
from scanline.server.api.base.client import CURRENT
from scanline.server.api.base.errors import RETRY_SOON, ApiError
from scanline.server.api.payload.schemas import PaintFields, StreamedGenerationRequest
from scanline.server.models.registry import ServedModel

MAX_WATCHED_JOBS = 8  # per engine: snapshots are copied in the engine's loop, at every job's cost
MAX_WATCHED_OF_CLIENT = 4


def requested_state(fields: PaintFields, model: ServedModel) -> tuple[int, int] | None:
    """Return the layer and head to watch, or None.

    Raises InvalidInput if the model has no such layer or head, ApiError 429 if too many jobs, of
    this client or of all, are watched already.
    """
    if not isinstance(fields, StreamedGenerationRequest) or fields.state is None:
        return None
    layer, head = fields.state
    check_layer_and_head(model.config, layer, head, "state", "state")
    watching = model.engine.watching
    if watching.total() >= MAX_WATCHED_JOBS or watching[CURRENT.get()] >= MAX_WATCHED_OF_CLIENT:
        message = "Too many jobs, of this client or of all, are sent state snapshots already;"
        message += " try again in a moment."
        raise ApiError("too_many_state_snapshots", message, headers=RETRY_SOON)
    return layer, head


def state_message(name: int | str, snapshot: StateSnapshot) -> dict[str, Any]:
    """Return the message of job `name` with a snapshot: float32, little endian, in base64."""
    return {
        "type": "state",
        "id": name,
        "position": snapshot.position,
        "s": b64encode(snapshot.s).decode(),
        "z": b64encode(snapshot.z).decode(),
    }
