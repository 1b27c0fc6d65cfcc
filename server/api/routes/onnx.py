"""GET /v1/models/{id}/onnx: the model's recurrent step, for painting on the client's own device."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from scanline.model.formats import OnnxNotInstalledError
from scanline.server.api.errors import ApiError
from scanline.server.api.openapi import Responses, errors
from scanline.server.api.schemas import ErrorAnswer
from scanline.server.registry import ModelRegistry

MEDIA_TYPE = "application/octet-stream"
RESPONSES: Responses = {
    200: {"content": {MEDIA_TYPE: {}}},
    304: {"description": "Not modified: if-none-match matched."},
    501: {"model": ErrorAnswer, "description": "The server is installed without the extra onnx."},
    **errors(401, 404, 500, 503),
}


@dataclass(frozen=True)
class Exported:
    """An exported model and its entity tag."""

    file: bytes
    etag: str


def router(models: ModelRegistry) -> APIRouter:
    """Return the route over `models`; each is exported at its first request and kept in memory."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])
    exports: dict[str, Exported] = {}
    exporting = asyncio.Lock()  # one export at a time: each loads a model

    @routes.head("/{name:path}/onnx", include_in_schema=False)
    @routes.get("/{name:path}/onnx", response_class=Response, responses=RESPONSES)
    async def exported(name: str, request: Request) -> Response:
        """Return the model as an ONNX graph of one recurrent step, as `scanline export --onnx` writes it."""
        model = models.usable(name)
        async with exporting:
            if name not in exports:
                try:
                    exports[name] = await asyncio.to_thread(_export, model.engine.options.directory)
                except OnnxNotInstalledError as error:
                    retry = {"x-should-retry": "false"}
                    raise ApiError(501, f"{error}.", code="onnx_not_installed", headers=retry) from None
        found = exports[name]
        headers = {"etag": found.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.etag:
            return Response(status_code=304, headers=headers)
        headers["content-disposition"] = _content_disposition(f"{name}.onnx")
        return Response(found.file, media_type=MEDIA_TYPE, headers=headers)

    return routes


def _content_disposition(file: str) -> str:
    """Return the header for a file name, which may contain any characters."""
    quoted = quote(file)
    return f'attachment; filename="{file}"' if quoted == file else f"attachment; filename*=utf-8''{quoted}"


def _export(directory: Path) -> Exported:
    from scanline.model.formats.checkpoint import load_model  # imports torch, which most API processes never need
    from scanline.model.formats.onnx_step import export_step

    file = export_step(load_model(directory)).SerializeToString(deterministic=True)
    return Exported(file, f'"{sha256(file).hexdigest()[:32]}"')
