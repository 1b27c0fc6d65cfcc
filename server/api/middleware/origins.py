"""Which web pages may use this server from a browser: its own always, others only where they are allowed.

A browser keeps foreign pages from reading HTTP answers unless CORS headers allow it, but opens a websocket for
any page: there the server itself must look. Programs send no Origin and are not asked for one.
"""

from collections.abc import Collection

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from scanline.server.api.errors import ApiError, refuse, response

TOLD = ("x-request-id", "x-scanline-seed", "retry-after")  # headers that a foreign page may read
NOT_ALLOWED = "Pages of this origin may not use this server; --allow-origin allows them."


def install(app: FastAPI, allowed: Collection[str]) -> None:
    """Pages of the origins `allowed` may use `app`, those of all where "*" is among them."""
    app.add_middleware(WebsocketOrigins, allowed=allowed)
    if allowed:
        app.add_middleware(
            Cors,
            allow_origins=allowed,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=TOLD,
        )


class Cors(CORSMiddleware):
    """Starlette's, with its refusals in the one shape."""

    def preflight_response(self, request_headers: Headers) -> Response:
        told = super().preflight_response(request_headers)
        if told.status_code == 200:
            return told
        headers = {name: value for name, value in told.headers.items() if not name.startswith("content-")}
        if not self.is_allowed_origin(origin=request_headers["origin"]):
            return response(ApiError(403, NOT_ALLOWED, code="origin_not_allowed", headers=headers))
        message = "Pages of other origins may send GET and POST only, and only from a network like this one."
        return response(ApiError(403, message, code="preflight_refused", headers=headers))


class WebsocketOrigins:
    """403 for websockets of foreign pages."""

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket" or self._allows(Headers(scope=scope)):
            await self.app(scope, receive, send)
            return
        await refuse(ApiError(403, NOT_ALLOWED, code="origin_not_allowed"), scope, receive, send)

    def _allows(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None or "*" in self.allowed or origin in self.allowed:
            return True
        return origin.partition("://")[2] == headers.get("host")  # the scheme a proxy may have changed
