"""gzip for texts: the pages, their files, the OpenAPI document and the metrics, where the client accepts it.

Answers with images are not compressed: PNG and WebP are already, and of their base64 a quarter is left to gain, which
a proxy can do. Event streams never wait for a compressor.
"""

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from scanline.server.api.routes.page import PATHS

SMALL_TEXTS = PATHS | {"/openapi.json", "/metrics"}  # up to 100 KB: a millisecond or two each time
MIN_BYTES = 1000
LEVEL = 4


class CompressionMiddleware:
    """Compress the answers of SMALL_TEXTS; files of the pages are compressed once, by their route."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.gzip = app, GZipMiddleware(app, MIN_BYTES, LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_text = scope["type"] == "http" and scope["path"] in SMALL_TEXTS
        await (self.gzip if is_text else self.app)(scope, receive, send)
