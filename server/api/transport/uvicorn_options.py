"""How uvicorn is set to speak HTTP and websocket for this server: all its options but where it listens."""

from typing import Any

from scanline.server.api.middleware.http_metrics import HttpCounters
from scanline.server.api.transport.http_protocol import HttpProtocol
from scanline.server.api.transport.websocket_protocol import WebsocketProtocol
from scanline.server.settings import Settings

PONG_SECONDS = 300.0  # a reader who does not read answers no ping either, and may be slow: it costs nobody anything


def options(settings: Settings, counters: HttpCounters) -> dict[str, Any]:
    """Arguments of uvicorn.Config; what the protocol refuses goes into the counters."""

    class Http(HttpProtocol):
        max_head_bytes = settings.max_head_bytes
        receive_timeout = settings.receive_timeout

    Http.counters = counters
    return {
        "http": Http,
        "ws": WebsocketProtocol,
        "ws_max_size": settings.max_body_bytes,
        "ws_per_message_deflate": False,
        "ws_ping_timeout": PONG_SECONDS,
        "timeout_keep_alive": settings.keep_alive_timeout,
        "access_log": False,  # server/api/middleware/access_log.py writes it
        "log_config": None,
    }
