"""GET /, /docs, /openapi.json and /assets: the page and the API documentation, built from
server/web, with nothing of other hosts.

Files under /assets have a hash of their content in their names, so browsers may cache them forever;
the others are revalidated each time. None needs an API key, and all are kept in memory.
"""

import asyncio
import json
from collections.abc import Sequence
from functools import cache, lru_cache
from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response

from scanline.server.api.base.page_paths import ASSETS, DOCUMENT, INSTALLED
from scanline.server.api.payload.kept_file import KeptFile
from scanline.server.api.routes import preview

BUILT = Path(__file__).parents[2] / "web" / "dist"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",  # the device tab runs a model in WebAssembly
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
POLICY_HEADER = {"content-security-policy": f"{POLICY}; frame-ancestors 'none'"}
INDEXES = 64  # links whose page is kept, 25 kB each
REVALIDATED = {"cache-control": "no-cache"}
COMPRESSED = (".js", ".css", ".wasm")  # files that are sent as gzip where the client accepts it


class Assets:
    """Files whose name changes with their content, each read and
    compressed at its first request.
    """

    def __init__(self, directory: Path) -> None:
        self.paths = {path.name: path for path in directory.iterdir()}
        self.kept: dict[str, KeptFile] = {}
        self.reading = asyncio.Lock()

    async def get(self, name: str) -> KeptFile:
        """Return a file; HTTPException where there is none of this name."""
        if name not in self.paths:
            raise HTTPException(404)
        async with self.reading:  # else many requests at the start would compress it as often
            if name not in self.kept:
                self.kept[name] = await asyncio.to_thread(self._read, name)
        return self.kept[name]

    def _read(self, name: str) -> KeptFile:
        media_type = guess_type(name)[0] or "application/octet-stream"
        headers = {**POLICY_HEADER, "cache-control": "public, max-age=31536000, immutable"}
        return KeptFile(
            self.paths[name].read_bytes(), media_type, headers, name.endswith(COMPRESSED)
        )


def install(app: FastAPI, frame_ancestors: Sequence[str] = (), has_preview: bool = False) -> None:
    """Add the page, the API documentation and the OpenAPI document to `app`. frame_ancestors: the
    origins of pages that may embed the first two; has_preview: whether links to the page have one."""
    routes = APIRouter(include_in_schema=False)
    ancestors = " ".join(frame_ancestors) or "'none'"
    headers = {
        "content-security-policy": f"{POLICY}; frame-ancestors {ancestors}",
        **REVALIDATED,
    }
    documentation = KeptFile((BUILT / "docs.html").read_bytes(), "text/html", headers)
    markup = (BUILT / "index.html").read_text()

    @lru_cache(INDEXES)
    def index(tags: str) -> KeptFile:
        return KeptFile(markup.replace("</head>", f"{tags}</head>").encode(), "text/html", headers)

    assets = Assets(BUILT / "assets")
    manifest, icon = (
        KeptFile((BUILT / name).read_bytes(), media_type, {**POLICY_HEADER, **REVALIDATED}, False)
        for name, media_type in zip(
            INSTALLED, ("application/manifest+json", "image/png"), strict=True
        )
    )

    @cache
    def document() -> KeptFile:
        # all routes are known by now
        return KeptFile(json.dumps(app.openapi()).encode(), "application/json", REVALIDATED)

    @routes.get("/")
    async def page(request: Request) -> Response:
        tags = preview.tags(request) if has_preview else ""
        return index(tags).response(request.headers)

    @routes.get("/docs")
    async def docs(request: Request) -> Response:
        return documentation.response(request.headers)

    @routes.get("/manifest.webmanifest")
    async def manifest_file(request: Request) -> Response:
        return manifest.response(request.headers)

    @routes.get("/icon.png")
    async def icon_file(request: Request) -> Response:
        return icon.response(request.headers)

    @routes.get(DOCUMENT)
    async def openapi(request: Request) -> Response:
        return document().response(request.headers)

    @routes.get(ASSETS + "/{name:path}")
    async def asset(name: str, request: Request) -> Response:
        return (await assets.get(name)).response(request.headers)

    app.include_router(routes)
    app.state.make_openapi = document
