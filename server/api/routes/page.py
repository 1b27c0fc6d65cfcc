"""GET / and /assets: the page, as it was built from server/web; nothing of it comes from anywhere else.

Files under /assets carry a hash of themselves in their names and are kept for good; the page that names them is
asked for again each time.
"""

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.responses import Response
from starlette.types import Scope

BUILT = Path(__file__).parents[2] / "web" / "dist"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",  # of the device tab, which runs a model
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
GUARDED = {"content-security-policy": POLICY}


class Assets(StaticFiles):
    """Files whose name changes whenever they do."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(GUARDED)
        if response.status_code < 400:
            response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response


def install(app: FastAPI) -> None:
    """Adds the page to `app`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def page() -> FileResponse:
        return FileResponse(BUILT / "index.html", headers={**GUARDED, "cache-control": "no-cache"})

    app.include_router(routes)
    app.mount("/assets", Assets(directory=BUILT / "assets"))
