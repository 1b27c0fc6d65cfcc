"""GET /v1/models/{id}/onnx: the model's recurrent step, for whoever wants to paint on their own device."""

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

TYPE = "application/octet-stream"
DESCRIBED: Responses = {
    200: {"content": {TYPE: {}}},
    304: {"description": "As if-none-match has it."},
    501: {"model": ErrorAnswer, "description": "The server is installed without the extra onnx."},
    **errors(401, 404, 500, 503),
}


@dataclass(frozen=True)
class Exported:
    """A file and the tag that is its own."""

    file: bytes
    tag: str


def router(models: ModelRegistry) -> APIRouter:
    """The route over `models`, each of which is exported when it is first asked for, and kept."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])
    kept: dict[str, Exported] = {}
    one_at_a_time = asyncio.Lock()

    @routes.head("/{name:path}/onnx", include_in_schema=False)
    @routes.get("/{name:path}/onnx", response_class=Response, responses=DESCRIBED)
    async def exported(name: str, request: Request) -> Response:
        """Gives the model as an ONNX graph of one recurrent step, as `scanline export --onnx` writes it."""
        model = models.usable(name)
        async with one_at_a_time:
            if name not in kept:
                try:
                    kept[name] = await asyncio.to_thread(_export, model.engine.options.directory)
                except OnnxNotInstalledError as error:
                    headers = {"x-should-retry": "false"}
                    raise ApiError(501, f"{error}.", code="onnx_not_installed", headers=headers) from None
        found = kept[name]
        headers = {"etag": found.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        headers["content-disposition"] = _attached(f"{name}.onnx")
        return Response(found.file, media_type=TYPE, headers=headers)

    return routes


def _attached(file: str) -> str:
    """The header's words for a file of that name, which may be in any script."""
    coded = quote(file)
    return f'attachment; filename="{file}"' if coded == file else f"attachment; filename*=utf-8''{coded}"


def _export(directory: Path) -> Exported:
    from scanline.model.formats.checkpoint import load_model  # torch comes with it, and most servers are never asked
    from scanline.model.formats.onnx_step import export_step

    file = export_step(load_model(directory)).SerializeToString(deterministic=True)
    return Exported(file, f'"{sha256(file).hexdigest()[:32]}"')
