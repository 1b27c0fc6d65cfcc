"""gzip for the metrics, where the client accepts it. The pages and their files
are compressed once (kept_file.py).

Answers with images are not compressed: PNG and WebP are already, and of their base64 a quarter is
left to gain, which a proxy can do. Event streams never wait for a compressor.
"""

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send

from scanline.server.api.middleware.server_middleware import ServerMiddleware
from scanline.server.api.payload.accept import takes_gzip

MIN_BYTES = 1000
LEVEL = 4


@dataclass(eq=False)
class CompressionMiddleware(ServerMiddleware):
    """Compress the metrics: up to 100 KB, a millisecond or two each time."""

    kinds = ("http",)

    def __post_init__(self) -> None:
        self.gzip = GZipMiddleware(self.app, MIN_BYTES, LEVEL)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_metrics = scope["path"] == "/metrics"
        app = self.gzip if is_metrics and takes_gzip(Headers(scope=scope)) else self.app
        await app(scope, receive, send)
