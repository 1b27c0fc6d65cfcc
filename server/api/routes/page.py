"""GET /, /docs and /assets: the page and the API documentation, built from server/web, with nothing of other hosts.

Files under /assets have a hash of their content in their names, so browsers may cache them forever; the two pages are
revalidated each time. The pages are kept in memory: reading a file takes another thread and a millisecond each time.
"""

import asyncio
import gzip
from collections.abc import Sequence
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

BUILT = Path(__file__).parents[2] / "web" / "dist"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",  # the device tab runs a model in WebAssembly
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
PATHS = frozenset({"/", "/docs"})
ASSETS = "/assets"
POLICY_HEADER = {"content-security-policy": f"{POLICY}; frame-ancestors 'none'"}
COMPRESSED = (".js", ".css")  # files that are sent as gzip where the client accepts it


class Assets(StaticFiles):
    """Files whose name changes with their content. Texts are compressed once and kept."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory)
        self.compressed: dict[str, bytes] = {}  # by path

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.status_code == 200 and path.endswith(COMPRESSED) and "range" not in (sent := Headers(scope=scope)):
            response.headers["vary"] = "accept-encoding"
            if "gzip" in sent.get("accept-encoding", ""):
                response = await self._as_gzip(path, response)
        response.headers.update(POLICY_HEADER)
        if response.status_code < 400:
            response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response

    async def _as_gzip(self, path: str, response: Response) -> Response:
        """Return the response with its file compressed; its entity tag is another's."""
        if path not in self.compressed:
            file, _ = self.lookup_path(path)
            self.compressed[path] = await asyncio.to_thread(lambda: gzip.compress(Path(file).read_bytes()))
        headers = {name: value for name, value in response.headers.items() if name in ("content-type", "vary")}
        return Response(self.compressed[path], headers={**headers, "content-encoding": "gzip"})


def is_page(path: str) -> bool:
    """Return whether this is the address of the page, of the API documentation, or of a file of theirs."""
    return path in PATHS or path.startswith(f"{ASSETS}/")


def install(app: FastAPI, frame_ancestors: Sequence[str] = ()) -> None:
    """Add the page and the API documentation to `app`. frame_ancestors: the origins of pages that may embed them."""
    routes = APIRouter(include_in_schema=False)
    index, documentation = ((BUILT / name).read_bytes() for name in ("index.html", "docs.html"))
    ancestors = " ".join(frame_ancestors) or "'none'"
    headers = {"content-security-policy": f"{POLICY}; frame-ancestors {ancestors}", "cache-control": "no-cache"}

    @routes.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(index, headers=headers)

    @routes.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(documentation, headers=headers)

    app.include_router(routes)
    app.mount(ASSETS, Assets(directory=BUILT / "assets"))
