"""State snapshots on the websocket: (s, z) of one layer and head while a job's first image is painted.

Requested by the field `state: [layer, head]`, sent as messages of type `state`. The field's old name, `trace`, is still
accepted and answered by messages of type `trace`.
"""

from base64 import b64encode
from typing import Any

from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import StateSnapshot
from scanline.server.api.errors import ApiError
from scanline.server.api.payload.schemas import PaintFields, StreamedGenerationRequest
from scanline.server.process.registry import ServedModel

MAX_WATCHED_JOBS = 8  # per engine: snapshots are copied in the engine's loop, at every job's cost


def requested_state(fields: PaintFields, model: ServedModel) -> tuple[int, int] | None:
    """Return the layer and head to watch, or None.

    Raises InvalidInput if the model has no such layer or head, ApiError 429 if too many jobs are watched already.
    """
    if not isinstance(fields, StreamedGenerationRequest):
        return None
    name, requested = _field(fields)
    if requested is None:
        return None
    (layer, head), config = requested, model.config
    if layer >= config.layers or head >= config.heads:
        has = f"layers 0 to {config.layers - 1} and heads 0 to {config.heads - 1}"
        raise InvalidInput(f"{name}: {model.id} has {has}.", name)
    if model.engine.snapshots >= MAX_WATCHED_JOBS:
        message = "Too many jobs are sent state snapshots already; try again in a moment."
        raise ApiError(429, message, code="too_many_traces", headers={"retry-after": "2"})
    return layer, head


def state_message(name: int | str, fields: PaintFields, snapshot: StateSnapshot) -> dict[str, Any]:
    """Return the message of job `name` with a snapshot: float32, little endian, in base64."""
    assert isinstance(fields, StreamedGenerationRequest)
    kind, _ = _field(fields)
    s, z = (b64encode(part).decode() for part in (snapshot.s, snapshot.z))
    return {"type": kind, "id": name, "position": snapshot.position, "s": s, "z": z}


def _field(fields: StreamedGenerationRequest) -> tuple[str, list[int] | None]:
    """Return the field that was used, by name, and its value."""
    return ("trace", fields.trace) if fields.trace is not None else ("state", fields.state)
