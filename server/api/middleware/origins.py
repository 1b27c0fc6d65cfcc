"""Which web pages may use this server from a browser: its own always, those of other origins only if allowed.

CORS headers stop a browser from letting a foreign page read HTTP answers, but a browser opens a websocket for any
page: there the server checks Origin itself. Programs send no Origin and pass.
"""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from scanline.server.api.errors import ApiError, refuse, response

EXPOSED_HEADERS = ("x-request-id", "x-scanline-seed", "retry-after")
NOT_ALLOWED = "This origin is not allowed; --allow-origin allows it."


def middleware(allowed: Collection[str]) -> list[Middleware]:
    """Let pages of the origins `allowed` use the application; those of any origin if "*" is among them."""
    websockets = Middleware(WebsocketOriginMiddleware, allowed=allowed)
    if not allowed:
        return [websockets]
    cors = Middleware(
        HttpOriginMiddleware,
        allow_origins=allowed,
        allow_methods=("GET", "POST"),
        allow_headers=("*",),
        expose_headers=EXPOSED_HEADERS,
    )
    return [cors, websockets]


class HttpOriginMiddleware(CORSMiddleware):
    """Starlette's CORS; a refused preflight request gets an answer in the one error shape."""

    def preflight_response(self, request_headers: Headers) -> Response:
        preflight = super().preflight_response(request_headers)
        if preflight.status_code == 200:
            return preflight
        headers = {name: value for name, value in preflight.headers.items() if not name.startswith("content-")}
        if not self.is_allowed_origin(origin=request_headers["origin"]):
            return response(ApiError(403, NOT_ALLOWED, code="origin_not_allowed", headers=headers))
        message = "Cross-origin requests may use GET and POST only, and not from a public network to a private one."
        return response(ApiError(403, message, code="preflight_refused", headers=headers))


class WebsocketOriginMiddleware:
    """Answers 403 to a websocket that a page of another origin opens."""

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
        return origin.partition("://")[2] == headers.get("host")  # not the scheme: a TLS proxy changes it
