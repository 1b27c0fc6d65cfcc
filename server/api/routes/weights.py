"""GET /v1/models/{id}/weights: what the page's kernel needs to paint on the client's own device."""

import asyncio
import logging
from collections.abc import AsyncIterator
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from scanline.server.api.base.errors import NO_RETRY, ApiError
from scanline.server.api.middleware.draining import shutting_down
from scanline.server.api.openapi import Responses, errors
from scanline.server.api.weights_export import ExportError, Exports
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.models.registry import ModelRegistry

log = logging.getLogger("scanline.server")

MEDIA_TYPE = "application/octet-stream"
CHUNK_BYTES = 65_536  # sent at once; the next one when the client has read it
RESPONSES: Responses = {
    200: {"content": {MEDIA_TYPE: {}}},
    304: {"description": "Not modified: if-none-match matched."},
    **errors(401, 404, 500, 503),
}


def router(models: ModelRegistry) -> APIRouter:
    """Return the route over `models`; each is exported at its first request and kept in memory."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])
    exports = Exports()

    @routes.head("/{name:path}/weights", include_in_schema=False)
    @routes.get("/{name:path}/weights", response_class=Response, responses=RESPONSES)
    async def get_weights(name: str, request: Request) -> Response:
        """Return the model's tensors in the order of the CPU kernel, as safetensors: what the page
        paints with on the client's own device.
        """
        model = models.usable(name)
        ready = model.engine.ready
        if ready is None:  # its files may not be complete yet
            raise EngineUnavailableError
        try:
            exported_model = await exports.get(
                (model.id, ready.whole_digest),
                model.engine.directory,
                model.engine.options.precision,
            )
        except ExportError as error:
            log.error("%s cannot be exported: %s", name, error)
            raise ApiError("export_failed", f"{error}.", headers=NO_RETRY) from None
        except asyncio.CancelledError:  # the server has drained, and does not wait for it
            raise shutting_down() from None
        headers = {"etag": exported_model.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == exported_model.etag:
            return Response(status_code=304, headers=headers)
        headers["content-disposition"] = _content_disposition(f"{name}.safetensors")
        headers["content-length"] = str(len(exported_model.file))
        return StreamingResponse(
            _in_chunks(exported_model.file), media_type=MEDIA_TYPE, headers=headers
        )

    return routes


async def _in_chunks(file: bytearray) -> AsyncIterator[bytes]:
    for start in range(0, len(file), CHUNK_BYTES):
        yield bytes(file[start : start + CHUNK_BYTES])


def _content_disposition(file: str) -> str:
    """Return the header for a file name, which may contain any characters."""
    quoted = quote(file)
    return (
        f'attachment; filename="{file}"'
        if quoted == file
        else f"attachment; filename*=utf-8''{quoted}"
    )
