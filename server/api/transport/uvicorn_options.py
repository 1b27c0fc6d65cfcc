"""All of uvicorn's options but the address it listens on."""

import ssl
from collections.abc import Callable
from typing import Any

from scanline.server.api.base.budgets import Budgets
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.transport.connections import Connections
from scanline.server.api.transport.http_protocol import HttpProtocol
from scanline.server.api.transport.websocket_protocol import WebsocketProtocol
from scanline.server.settings import Settings

ACCEPTED_AT_ONCE = 4  # connections in one turn of the event loop, 1 ms
PONG_SECONDS = 300.0  # a client that reads slowly answers pings late; waiting for it costs nothing


def uvicorn_options(
    settings: Settings,
    counters: HttpCounters,
    budgets: Budgets | None = None,
    max_message_bytes: Callable[[], int] | None = None,
    tls_context: ssl.SSLContext | None = None,
) -> dict[str, Any]:
    """Return arguments of uvicorn.Config. What the protocols refuse is counted in `counters`.

    `budgets` holds the process's limits, and is where its gauges are read; `max_message_bytes`
    returns the limit of the messages of a new websocket, by default that of a body: a reload may
    change it. `tls_context`: for HTTPS, which the protocol begins itself, to count each connection
    and limit its time before its handshake.
    """
    limit = max_message_bytes or (lambda: settings.max_body_bytes)
    connections = Connections(budgets or Budgets(settings), counters, settings.send_timeout)

    class ConfiguredHttpProtocol(HttpProtocol):  # uvicorn takes a class and calls it itself
        max_head_bytes = settings.max_head_bytes
        receive_timeout = settings.receive_timeout
        all_connections = connections
        tls = tls_context

    class ConfiguredWebsocketProtocol(WebsocketProtocol):
        receive_timeout = settings.receive_timeout
        all_connections = connections
        max_message_bytes = staticmethod(limit)

    return {
        "http": ConfiguredHttpProtocol,
        "ws": ConfiguredWebsocketProtocol,
        "backlog": ACCEPTED_AT_ONCE,
        "ws_per_message_deflate": False,
        "ws_ping_timeout": PONG_SECONDS,
        "timeout_keep_alive": settings.keep_alive_timeout,
        "access_log": False,  # middleware/observe.py writes it
        "log_config": None,
        # middleware/client.py reads them; uvicorn believes them from every local connection
        "proxy_headers": False,
    }
