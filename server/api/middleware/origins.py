"""Origins: a server's own pages may use it from a browser, those of other origins only if allowed.

CORS headers stop a browser from letting a foreign page read HTTP answers, but a browser opens a
websocket for any page, sends a form with pictures for any page, and loads the preview of a link,
which is painted: there the server itself checks Origin, and Sec-Fetch-Site where a browser sends no
Origin. Programs send neither and pass.
"""

from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scanline.server.api.base.errors import ApiError, refuse, response
from scanline.server.api.base.page_paths import PREVIEW
from scanline.server.api.middleware.draining import READ_ONLY_METHODS
from scanline.server.api.middleware.server_middleware import ServerMiddleware

SIZE_HEADERS = ("x-scanline-resized-from", "x-scanline-uploads-resized-from")
EXPOSED_HEADERS = (
    "x-request-id",
    "x-scanline-seed",
    *SIZE_HEADERS,
    "retry-after",
    "content-disposition",
)
NOT_ALLOWED = "This origin is not allowed; --allow-origin allows it."
# values of Sec-Fetch-Site; none: the user's own doing, like a bookmark
OWN_SITES = frozenset({"same-origin", "none"})


def middleware(allowed: Collection[str]) -> list[Middleware]:
    """Let pages of the origins `allowed` use the application; those of
    any origin if "*" is among them.
    """
    checked = Middleware(OriginMiddleware, allowed=allowed)
    if not allowed:
        return [checked]
    cors = Middleware(
        CorsMiddleware,
        allow_origins=allowed,
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("*",),
        allow_private_network=True,  # of a page of the internet to a server on this machine
        expose_headers=EXPOSED_HEADERS,
    )
    return [cors, checked]


class CorsMiddleware(CORSMiddleware):
    """Starlette's CORS; a refused preflight request gets an answer in the one error shape."""

    def preflight_response(self, request_headers: Headers) -> Response:
        preflight = super().preflight_response(request_headers)
        if preflight.status_code == 200:
            # a newer name of the same
            if "access-control-request-local-network" in request_headers:
                preflight.headers["access-control-allow-local-network"] = "true"
            return preflight
        left_out = ("content-", "access-control-allow-private-")
        headers = {
            name: value
            for name, value in preflight.headers.items()
            if not name.startswith(left_out)
        }
        if not self.is_allowed_origin(origin=request_headers["origin"]):
            return response(ApiError("origin_not_allowed", NOT_ALLOWED, headers=headers))
        message = "Cross-origin requests may use GET, HEAD and POST only."
        return response(ApiError("preflight_refused", message, headers=headers))


@dataclass(eq=False)
class OriginMiddleware(ServerMiddleware):
    """Answer 403 to a websocket, or a request that does more than
    read, of a page of another origin.
    """

    allowed: Collection[str]

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Reading a preview makes the server paint it.
        is_read_only = scope.get("method") in READ_ONLY_METHODS and scope["path"] != PREVIEW
        if is_read_only or self._allows(Headers(scope=scope)):
            await self.app(scope, receive, send)
            return
        await refuse(ApiError("origin_not_allowed", NOT_ALLOWED), scope, receive, send)

    def _allows(self, headers: Headers) -> bool:
        origins = headers.getlist("origin")
        hosts = headers.getlist("host")
        if "*" in self.allowed or (origins and all(origin in self.allowed for origin in origins)):
            return True
        if any(site not in OWN_SITES for site in headers.getlist("sec-fetch-site")):
            return False
        # HostMiddleware, outside of this one, has compared Host with the names that are known to be
        # ours. The scheme is not compared: a TLS proxy changes it.
        host = hosts[0].lower() if len(hosts) == 1 else ""
        return all(host and origin.lower().partition("://")[2] == host for origin in origins)
