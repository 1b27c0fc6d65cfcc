"""All of uvicorn's options but the address it listens on."""

from typing import Any

from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.transport.http_protocol import HttpProtocol
from scanline.server.api.transport.websocket_protocol import WebsocketProtocol
from scanline.server.settings import Settings

PONG_SECONDS = 300.0  # a client that reads slowly answers pings late; waiting for it costs nothing


def uvicorn_options(settings: Settings, counters: HttpCounters) -> dict[str, Any]:
    """Return arguments of uvicorn.Config; what the HTTP protocol refuses is counted in `counters`."""

    class ConfiguredHttpProtocol(HttpProtocol):  # uvicorn takes a class and calls it itself
        max_head_bytes = settings.max_head_bytes
        receive_timeout = settings.receive_timeout

    ConfiguredHttpProtocol.counters = counters
    return {
        "http": ConfiguredHttpProtocol,
        "ws": WebsocketProtocol,
        "ws_max_size": settings.max_body_bytes,
        "ws_per_message_deflate": False,
        "ws_ping_timeout": PONG_SECONDS,
        "timeout_keep_alive": settings.keep_alive_timeout,
        "access_log": False,  # middleware/observe.py writes it
        "log_config": None,
        "proxy_headers": False,  # middleware/client.py reads them; uvicorn believes them from every local connection
    }
