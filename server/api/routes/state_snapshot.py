"""`trace` of a websocket's job: the state (s, z) of one layer and head while the job's first image is painted."""

from base64 import b64encode
from typing import Any

from scanline.model.inputs import InvalidInput
from scanline.model.sampling.messages import StateSnapshot
from scanline.server.api.errors import ApiError
from scanline.server.api.schemas import PaintFields, StreamedGenerationRequest
from scanline.server.registry import ServedModel

MOST = 8  # jobs of one engine that are told states, so that telling them costs the others nothing


def watched_by(fields: PaintFields, model: ServedModel) -> tuple[int, int] | None:
    """The layer and head that are asked for; InvalidInput where the model has no such, 429 where many watch."""
    if not isinstance(fields, StreamedGenerationRequest) or fields.trace is None:
        return None
    layer, head = fields.trace
    config = model.config
    if layer >= config.layers or head >= config.heads:
        has = f"layers 0 to {config.layers - 1} and heads 0 to {config.heads - 1}"
        raise InvalidInput(f"trace: {model.id} has {has}.", "trace")
    if model.engine.snapshots >= MOST:
        message = "Many watch the state already; try again in a moment."
        raise ApiError(429, message, code="too_many_traces", headers={"retry-after": "2"})
    return layer, head


def told_of(glimpse: StateSnapshot) -> dict[str, Any]:
    """A state in a message: float32, little endian, in base64."""
    s, z = (b64encode(part).decode() for part in (glimpse.s, glimpse.z))
    return {"position": glimpse.position, "s": s, "z": z}
