"""Requests as routes see them: HEAD, which load balancers and monitors send, as
GET without the body, and no query but that of a link to the page.
"""

from starlette.types import Message, Receive, Scope, Send

from scanline.server.api.base.page_paths import LINKED, MAX_QUERY
from scanline.server.api.middleware.server_middleware import ServerMiddleware


class HeadMiddleware(ServerMiddleware):
    """Pass a HEAD request on as a GET and drop the body of its response;
    status and headers are those of the GET.

    FastAPI's routes answer only the methods that they name.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # FastAPI would parse it, up to 20 ms of the event loop, and other routes have no parameters
        # in it.
        if scope["path"] not in LINKED or len(scope["query_string"]) > MAX_QUERY:
            scope["query_string"] = b""
        if scope.get("method") != "HEAD":
            await self.app(scope, receive, send)
            return

        async def bodiless_send(message: Message) -> None:
            if message["type"] == "http.response.body":
                if message.get("more_body", False):
                    return
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        # A copy: the server reads the method from its own scope to leave out the body.
        inner = {**scope, "method": "GET"}
        try:
            await self.app(inner, receive, bodiless_send)
        finally:
            if "route" in inner:  # for the access log and the metrics
                scope["route"] = inner["route"]
