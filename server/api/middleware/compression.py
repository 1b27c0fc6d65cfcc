"""gzip for the metrics, where the client accepts it. The pages and their files
are compressed once (kept_file.py).

Answers with images are not compressed: PNG and WebP are already, and of their base64 a quarter is
left to gain, which a proxy can do. Event streams never wait for a compressor.
"""

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from scanline.server.api.payload.accept import takes_gzip

MIN_BYTES = 1000
LEVEL = 4


class CompressionMiddleware:
    """Compress the metrics: up to 100 KB, a millisecond or two each time."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.gzip = GZipMiddleware(app, MIN_BYTES, LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_metrics = scope["type"] == "http" and scope["path"] == "/metrics"
        app = self.gzip if is_metrics and takes_gzip(Headers(scope=scope)) else self.app
        await app(scope, receive, send)
